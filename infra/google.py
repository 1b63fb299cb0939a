"""What is made by gcloud: services, images, bucket, accounts with their roles, cluster."""

import dataclasses

from infra.commands import Argv, InfraResource
from infra.settings import InfraSettings

PROJECT, APIS, REPOSITORY, BUCKET, CLUSTER = "project", "apis", "image repository", "bucket", "cluster"
WORKER, LAUNCHER, VIEWER, NODES = "worker account", "launcher account", "viewer account", "node account"

_CONTAINER, _ARTIFACTS = "container.googleapis.com", "artifactregistry.googleapis.com"
_STORAGE, _IAM = "storage.googleapis.com", "iam.googleapis.com"
_PROJECTS = "cloudresourcemanager.googleapis.com"
_ENABLED = (
    *(_PROJECTS, _CONTAINER, _ARTIFACTS, _STORAGE, _IAM),
    "aiplatform.googleapis.com",
    "compute.googleapis.com",
    # Workload identity: pods ask it for the credentials of their account.
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
)
# One line a member of a policy: ROLE=MEMBER.
_MEMBERS = ("--flatten=bindings[].members", '--format=value[separator="="](bindings.role,bindings.members)')
# A file of the checkout, at whose root commands are run.
_LIFECYCLE = "infra/lifecycle.json"
_LIFECYCLE_ACTIONS = "--format=value(lifecycle_config.rule[].action.type)"
_TRAINING_POOL = "training"
# gcloud takes both or none.
_SHIELDED = ("--shielded-secure-boot", "--shielded-integrity-monitoring")


@dataclasses.dataclass(frozen=True)
class _Policy:
    """Who may do what with one thing: gcloud's group for it, the thing, its service, and the resource that it is."""

    group: tuple[str, ...]
    of: str
    api: str
    parent: str = ""
    flags: tuple[str, ...] = ()


def project_and_services(settings: InfraSettings) -> list[InfraResource]:
    """Return the project, which must exist, and what is turned on in it."""
    return [
        InfraResource(
            name=PROJECT,
            description="the project, with a billing account",
            describe=_gcloud(settings, "projects", "describe", settings.project, "--format=value(projectId)"),
            expected=(settings.project,),
            retained="it is not made here",
        ),
        InfraResource(
            name=APIS,
            description="Google's services that the rest needs",
            describe=_gcloud(settings, "services", "list", "--enabled", "--format=value(config.name)"),
            expected=_ENABLED,
            create=(_gcloud(settings, "services", "enable", *_ENABLED),),
            retained="they cost nothing, and others in the project may use them",
        ),
    ]


def storage(settings: InfraSettings) -> list[InfraResource]:
    """Return the repository of images, and the bucket."""
    repository, bucket = settings.repository_name, _url(settings)
    location = f"--location={settings.bucket_region}"
    repositories = ("artifacts", "repositories")
    return [
        InfraResource(
            name=REPOSITORY,
            description=f"a Docker repository of Artifact Registry for the image: {image_prefix(settings)}",
            describe=_gcloud(settings, *repositories, "describe", repository, location, "--format=value(format)"),
            expected=("DOCKER",),
            create=(_gcloud(settings, *repositories, "create", repository, location, "--repository-format=docker"),),
            delete=(_gcloud(settings, *repositories, "delete", repository, location),),
            data_loss="all images in it; a run that names one by its digest cannot be repeated",
            api=_ARTIFACTS,
        ),
        InfraResource(
            name=BUCKET,
            description=f"the bucket {bucket}, never public, rights for the whole of it alone",
            describe=_gcloud(settings, "storage", "buckets", "describe", bucket, "--format=value(name)"),
            expected=(settings.bucket_name,),
            create=(
                _gcloud(
                    *(settings, "storage", "buckets", "create", bucket, location),
                    *("--uniform-bucket-level-access", "--public-access-prevention"),
                    f"--soft-delete-duration={settings.soft_delete_days}d",
                ),
            ),
            delete=(_gcloud(settings, "storage", "rm", "--recursive", bucket),),
            data_loss=f"everything that runs have written to {bucket}",
            api=_STORAGE,
            retained="it holds what runs have written; --delete-data deletes it",
            is_data=True,
        ),
        InfraResource(
            name="bucket lifecycle",
            description="uploads that were never ended, and old versions if somebody keeps any, go after seven days",
            describe=_gcloud(
                settings,
                "storage",
                "buckets",
                "describe",
                bucket,
                _LIFECYCLE_ACTIONS,
            ),
            expected=("AbortIncompleteMultipartUpload;Delete",),
            create=(_gcloud(settings, "storage", "buckets", "update", bucket, f"--lifecycle-file={_LIFECYCLE}"),),
            parent=BUCKET,
            api=_STORAGE,
        ),
    ]


def accounts(settings: InfraSettings) -> list[InfraResource]:
    """Return the service accounts, and the roles that each has, on no more than it needs."""
    worker, launcher, nodes = settings.service_account_name, settings.launcher_account_name, settings.node_account_name
    viewer = settings.viewer_account_name
    project = _Policy(("projects",), settings.project, _PROJECTS)
    location = (f"--location={settings.bucket_region}",)
    images = _Policy(("artifacts", "repositories"), settings.repository_name, _ARTIFACTS, REPOSITORY, location)
    bucket = _Policy(("storage", "buckets"), _url(settings), _STORAGE, BUCKET)
    return [
        _account(settings, NODES, nodes, "whom the machines of the cluster are"),
        _account(settings, WORKER, worker, "whom the processes of a training are, and Kubeflow's steps"),
        _account(settings, LAUNCHER, launcher, "whom the steps of a pipeline on Vertex AI are"),
        _account(settings, VIEWER, viewer, "whom a TensorBoard on the cluster and Kubeflow's interface are"),
        *(
            _role(settings, name, description, f"serviceAccount:{email(settings, account)}", f"roles/{role}", policy)
            for name, description, account, role, policy in (
                (
                    *("role of machines", "machines write logs and metrics"),
                    *(nodes, "container.defaultNodeServiceAccount", project),
                ),
                (
                    *("images for machines", "machines pull images, of this repository alone"),
                    *(nodes, "artifactregistry.reader", images),
                ),
                (
                    *("bucket for workers", "workers read and write objects, of this bucket alone"),
                    *(worker, "storage.objectUser", bucket),
                ),
                (
                    *("bucket for launchers", "steps on Vertex AI read and write objects, of this bucket alone"),
                    *(launcher, "storage.objectUser", bucket),
                ),
                (
                    *("bucket for viewers", "a TensorBoard and Kubeflow's interface read objects, of this bucket"),
                    *(viewer, "storage.objectViewer", bucket),
                ),
                (
                    *("Vertex AI for launchers", "steps on Vertex AI start custom jobs"),
                    *(launcher, "aiplatform.user", project),
                ),
                (
                    *("logs for launchers", "steps on Vertex AI show the lines of their workers"),
                    *(launcher, "logging.viewer", project),
                ),
                (
                    *("workers for launchers", "steps on Vertex AI start jobs that run as the worker account"),
                    *(launcher, "iam.serviceAccountUser", _of_account(settings, worker, WORKER)),
                ),
            )
        ),
    ]


def cluster(settings: InfraSettings) -> list[InfraResource]:
    """Return the cluster, and the pool of machines that train."""
    clusters, pools = ("container", "clusters"), ("container", "node-pools")
    location, of_cluster = f"--location={settings.zone}", f"--cluster={settings.cluster_name}"
    node = (f"--service-account={email(settings, settings.node_account_name)}", *_SHIELDED)
    status = "--format=value(name,status)"
    return [
        InfraResource(
            name=CLUSTER,
            description=f"the cluster {settings.cluster_name} with one {settings.system_machine_type}, with network "
            "policies and service accounts for pods",
            describe=_gcloud(settings, *clusters, "describe", settings.cluster_name, location, status),
            expected=(settings.cluster_name,),
            create=(
                _gcloud(
                    *(settings, *clusters, "create", settings.cluster_name, location, "--release-channel=regular"),
                    *("--enable-ip-alias", "--enable-dataplane-v2", f"--workload-pool={_pool(settings)}"),
                    *("--num-nodes=1", f"--machine-type={settings.system_machine_type}", *node),
                ),
            ),
            delete=(_gcloud(settings, *clusters, "delete", settings.cluster_name, location),),
            data_loss="everything in it: Kubeflow's runs, their metadata, and artifacts that are not in a bucket",
            api=_CONTAINER,
            connect=_gcloud(settings, *clusters, "get-credentials", settings.cluster_name, location),
        ),
        InfraResource(
            name="training machines",
            description=f"0 to {settings.num_nodes} Spot machines {settings.machine_type}, scaled by demand",
            describe=_gcloud(settings, *pools, "describe", _TRAINING_POOL, of_cluster, location, status),
            expected=(_TRAINING_POOL,),
            create=(
                _gcloud(
                    *(settings, *pools, "create", _TRAINING_POOL, of_cluster, location, "--spot"),
                    *("--enable-autoscaling", "--num-nodes=0", "--min-nodes=0", f"--max-nodes={settings.num_nodes}"),
                    # Only what says `spot: true` goes there: GKE puts no such taint on machines by itself.
                    "--node-taints=cloud.google.com/gke-spot=true:NoSchedule",
                    *(f"--machine-type={settings.machine_type}", "--workload-metadata=GKE_METADATA", *node),
                ),
            ),
            parent=CLUSTER,
            api=_CONTAINER,
        ),
    ]


def identity(settings: InfraSettings, account: str, namespace: str, owner: str) -> InfraResource:
    """Return the right of a service account of the cluster to be the worker or the viewer account, `owner`."""
    return _role(
        settings,
        f"identity of {account}",
        f"pods of the cluster that run as {account} are the {owner}",
        f"serviceAccount:{_pool(settings)}[{namespace}/{account}]",
        "roles/iam.workloadIdentityUser",
        _of_account(settings, owned(settings, owner), owner),
    )


def owned(settings: InfraSettings, owner: str) -> str:
    """Return the name of the worker or the viewer account."""
    return {WORKER: settings.service_account_name, VIEWER: settings.viewer_account_name}[owner]


def email(settings: InfraSettings, account: str) -> str:
    """Return the email address of a service account."""
    return f"{account}@{settings.project}.iam.gserviceaccount.com"


def image_prefix(settings: InfraSettings) -> str:
    """Return what names of images in the repository begin with."""
    return f"{settings.bucket_region}-docker.pkg.dev/{settings.project}/{settings.repository_name}"


def _account(settings: InfraSettings, name: str, account: str, description: str) -> InfraResource:
    accounts_of_iam = ("iam", "service-accounts")
    address = email(settings, account)
    return InfraResource(
        name=name,
        description=f"{description}: {address}",
        describe=_gcloud(settings, *accounts_of_iam, "describe", address, "--format=value(email)"),
        expected=(address,),
        create=(_gcloud(settings, *accounts_of_iam, "create", account, f"--display-name=qcnn {name}"),),
        delete=(_gcloud(settings, *accounts_of_iam, "delete", address),),
        data_loss="roles that it was given elsewhere",
        api=_IAM,
    )


def _of_account(settings: InfraSettings, account: str, owner: str) -> _Policy:
    return _Policy(("iam", "service-accounts"), email(settings, account), _IAM, owner)


def _role(
    settings: InfraSettings, name: str, description: str, member: str, role: str, policy: _Policy
) -> InfraResource:
    """Return a role that a member has by a policy."""
    # With a condition of none nothing is asked, also where the policy has others with one.
    bound = (policy.of, *policy.flags, f"--member={member}", f"--role={role}", "--condition=None")
    return InfraResource(
        name=name,
        description=f"{description} ({role})",
        describe=_gcloud(settings, *policy.group, "get-iam-policy", policy.of, *policy.flags, *_MEMBERS),
        expected=(f"{role}={member}",),
        create=(_gcloud(settings, *policy.group, "add-iam-policy-binding", *bound),),
        # A project and a bucket may stay: they must not go on naming an account that is gone.
        delete=(_gcloud(settings, *policy.group, "remove-iam-policy-binding", *bound),),
        parent=policy.parent,
        api=policy.api,
    )


def _url(settings: InfraSettings) -> str:
    return f"gs://{settings.bucket_name}"


def _pool(settings: InfraSettings) -> str:
    """Return the pool of identities of a project, which its first cluster with workload identity makes."""
    return f"{settings.project}.svc.id.goog"


def _gcloud(settings: InfraSettings, *words: str) -> Argv:
    return ("gcloud", *words, f"--project={settings.project}")
