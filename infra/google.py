"""Resources created with gcloud: services, image repository, bucket, service accounts, roles, cluster."""

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
    # Workload identity: it issues the credentials of a pod's service account.
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
)
# One line for each member of a policy: ROLE=MEMBER.
_MEMBERS = ("--flatten=bindings[].members", '--format=value[separator="="](bindings.role,bindings.members)')
# Relative to the repository root, where commands run.
_LIFECYCLE = "infra/lifecycle.json"
_LIFECYCLE_ACTIONS = "--format=value(lifecycle_config.rule[].action.type)"
_TRAINING_POOL, _GPU_POOL = "training", "training-gpu"
_STATUS = "--format=value(name,status)"
# gcloud requires both flags or none.
_SHIELDED = ("--shielded-secure-boot", "--shielded-integrity-monitoring")


@dataclasses.dataclass(frozen=True)
class _Policy:
    """IAM policy of a resource, as arguments of gcloud."""

    # Command group, such as storage buckets.
    group: tuple[str, ...]
    target: str
    api: str
    # Name of the InfraResource that the policy belongs to.
    parent: str = ""
    flags: tuple[str, ...] = ()


def project_and_services(settings: InfraSettings) -> list[InfraResource]:
    """Return the project, which must exist, and its enabled services."""
    return [
        InfraResource(
            name=PROJECT,
            description="the project, with a billing account",
            describe=_gcloud(settings, "projects", "describe", settings.project, "--format=value(projectId)"),
            expected=(settings.project,),
            retained="it is not created here",
        ),
        InfraResource(
            name=APIS,
            description="required Google Cloud APIs",
            describe=_gcloud(settings, "services", "list", "--enabled", "--format=value(config.name)"),
            expected=_ENABLED,
            create=(_gcloud(settings, "services", "enable", *_ENABLED),),
            retained="they are free, and other applications in the project may use them",
        ),
    ]


def storage(settings: InfraSettings) -> list[InfraResource]:
    """Return the image repository, and the bucket with its lifecycle rules."""
    repository, bucket = settings.repository_name, _url(settings)
    location = f"--location={settings.bucket_region}"
    repositories = ("artifacts", "repositories")
    return [
        InfraResource(
            name=REPOSITORY,
            description=f"Docker repository of Artifact Registry: {image_prefix(settings)}",
            describe=_gcloud(settings, *repositories, "describe", repository, location, "--format=value(format)"),
            expected=("DOCKER",),
            create=(_gcloud(settings, *repositories, "create", repository, location, "--repository-format=docker"),),
            delete=(_gcloud(settings, *repositories, "delete", repository, location),),
            data_loss="all images; runs that use them by digest cannot be repeated",
            api=_ARTIFACTS,
        ),
        InfraResource(
            name=BUCKET,
            description=f"bucket {bucket}, not public, with uniform bucket-level access",
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
            data_loss=f"all outputs of runs in {bucket}",
            api=_STORAGE,
            retained="it contains outputs of runs; --delete-data deletes it",
            is_data=True,
        ),
        InfraResource(
            name="bucket lifecycle",
            description="deletion of incomplete uploads and noncurrent object versions after 7 days",
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
    """Return the service accounts and their roles, with least privilege."""
    worker, launcher, nodes = settings.service_account_name, settings.launcher_account_name, settings.node_account_name
    viewer = settings.viewer_account_name
    project = _Policy(("projects",), settings.project, _PROJECTS)
    location = (f"--location={settings.bucket_region}",)
    images = _Policy(("artifacts", "repositories"), settings.repository_name, _ARTIFACTS, REPOSITORY, location)
    bucket = _Policy(("storage", "buckets"), _url(settings), _STORAGE, BUCKET)
    return [
        _account(settings, NODES, nodes, "account of the cluster's nodes"),
        _account(settings, WORKER, worker, "account of training jobs and of pipeline steps in Kubeflow"),
        _account(settings, LAUNCHER, launcher, "account of pipeline steps on Vertex AI"),
        _account(settings, VIEWER, viewer, "account of TensorBoard on the cluster and of the KFP UI"),
        *(
            _role(settings, name, description, f"serviceAccount:{email(settings, account)}", f"roles/{role}", policy)
            for name, description, account, role, policy in (
                (
                    *("role of nodes", "nodes write logs and metrics"),
                    *(nodes, "container.defaultNodeServiceAccount", project),
                ),
                (
                    *("images for nodes", "nodes pull images from this repository"),
                    *(nodes, "artifactregistry.reader", images),
                ),
                (
                    *("bucket for workers", "workers read and write objects in this bucket"),
                    *(worker, "storage.objectUser", bucket),
                ),
                (
                    *("bucket for launchers", "pipeline steps on Vertex AI read and write objects in this bucket"),
                    *(launcher, "storage.objectUser", bucket),
                ),
                (
                    *("bucket for viewers", "TensorBoard and the KFP UI read objects in this bucket"),
                    *(viewer, "storage.objectViewer", bucket),
                ),
                (
                    *("Vertex AI for launchers", "pipeline steps on Vertex AI create custom jobs"),
                    *(launcher, "aiplatform.user", project),
                ),
                (
                    *("logs for launchers", "pipeline steps on Vertex AI stream the logs of their workers"),
                    *(launcher, "logging.viewer", project),
                ),
                (
                    *(
                        "workers for launchers",
                        "pipeline steps on Vertex AI create jobs that run as the worker account",
                    ),
                    *(launcher, "iam.serviceAccountUser", _account_policy(settings, worker, WORKER)),
                ),
            )
        ),
    ]


def cluster(settings: InfraSettings) -> list[InfraResource]:
    """Return the cluster and the training node pools. Without an accelerator, there is no pool with GPUs."""
    clusters, location = ("container", "clusters"), f"--location={settings.zone}"
    gpus = f"{settings.gpus_per_node} {settings.accelerator}"
    # GKE installs the driver, and adds a taint to the nodes and its toleration to pods that request GPUs.
    accelerator = f"--accelerator=type={settings.accelerator},count={settings.gpus_per_node},gpu-driver-version=default"
    pools = [
        _node_pool(
            settings,
            *("training nodes", f"Spot nodes {settings.machine_type}, autoscaled", _TRAINING_POOL),
            *(settings.num_nodes, f"--machine-type={settings.machine_type}"),
        ),
        _node_pool(
            settings,
            *("GPU nodes", f"Spot nodes {settings.gpu_machine_type} with {gpus}, autoscaled", _GPU_POOL),
            *(settings.num_gpu_nodes, f"--machine-type={settings.gpu_machine_type}", accelerator),
        ),
    ]
    return [
        InfraResource(
            name=CLUSTER,
            description=f"cluster {settings.cluster_name} with one {settings.system_machine_type} node, network "
            "policies and workload identity",
            describe=_gcloud(settings, *clusters, "describe", settings.cluster_name, location, _STATUS),
            expected=(settings.cluster_name,),
            create=(
                _gcloud(
                    *(settings, *clusters, "create", settings.cluster_name, location, "--release-channel=regular"),
                    *("--enable-ip-alias", "--enable-dataplane-v2", f"--workload-pool={_pool(settings)}"),
                    *("--num-nodes=1", f"--machine-type={settings.system_machine_type}", *_node_flags(settings)),
                ),
            ),
            delete=(_gcloud(settings, *clusters, "delete", settings.cluster_name, location),),
            data_loss="runs, metadata and artifacts of Kubeflow that are not in a bucket",
            api=_CONTAINER,
            connect=_gcloud(settings, *clusters, "get-credentials", settings.cluster_name, location),
        ),
        *(pools if settings.accelerator else pools[:1]),
    ]


def _node_pool(
    settings: InfraSettings, name: str, description: str, pool: str, maximum: int, *flags: str
) -> InfraResource:
    """Return a node pool of 0 to `maximum` Spot nodes for training."""
    pools = ("container", "node-pools")
    of_cluster = (f"--cluster={settings.cluster_name}", f"--location={settings.zone}")
    return InfraResource(
        name=name,
        description=f"0 to {maximum} {description}",
        describe=_gcloud(settings, *pools, "describe", pool, *of_cluster, _STATUS),
        expected=(pool,),
        create=(
            _gcloud(
                *(settings, *pools, "create", pool, *of_cluster, "--spot"),
                *("--enable-autoscaling", "--num-nodes=0", "--min-nodes=0", f"--max-nodes={maximum}"),
                # Restricts the nodes to pods with `spot: true`. GKE does not add this taint itself.
                "--node-taints=cloud.google.com/gke-spot=true:NoSchedule",
                *(*flags, "--workload-metadata=GKE_METADATA", *_node_flags(settings)),
            ),
        ),
        parent=CLUSTER,
        api=_CONTAINER,
    )


def _node_flags(settings: InfraSettings) -> tuple[str, ...]:
    return (f"--service-account={email(settings, settings.node_account_name)}", *_SHIELDED)


def identity(settings: InfraSettings, account: str, namespace: str, owner: str) -> InfraResource:
    """Return the workload identity binding of a Kubernetes service account.

    Args:
        settings: Settings of the project.
        account: Kubernetes service account.
        namespace: Namespace of the service account.
        owner: Google service account that its pods authenticate as: `WORKER` or `VIEWER`.
    """
    return _role(
        settings,
        f"identity of {account}",
        f"pods that run as {account} authenticate as the {owner}",
        f"serviceAccount:{_pool(settings)}[{namespace}/{account}]",
        "roles/iam.workloadIdentityUser",
        _account_policy(settings, account_name(settings, owner), owner),
    )


def account_name(settings: InfraSettings, owner: str) -> str:
    """Return the name of the worker or the viewer account."""
    return {WORKER: settings.service_account_name, VIEWER: settings.viewer_account_name}[owner]


def email(settings: InfraSettings, account: str) -> str:
    """Return the email address of a service account."""
    return f"{account}@{settings.project}.iam.gserviceaccount.com"


def image_prefix(settings: InfraSettings) -> str:
    """Return the prefix of image names in the repository."""
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
        data_loss="its roles on other resources",
        api=_IAM,
    )


def _account_policy(settings: InfraSettings, account: str, owner: str) -> _Policy:
    return _Policy(("iam", "service-accounts"), email(settings, account), _IAM, owner)


def _role(
    settings: InfraSettings, name: str, description: str, member: str, role: str, policy: _Policy
) -> InfraResource:
    """Return the binding of a role to a member."""
    # Without --condition, gcloud prompts if the policy has conditional bindings.
    binding = (policy.target, *policy.flags, f"--member={member}", f"--role={role}", "--condition=None")
    return InfraResource(
        name=name,
        description=f"{description} ({role})",
        describe=_gcloud(settings, *policy.group, "get-iam-policy", policy.target, *policy.flags, *_MEMBERS),
        expected=(f"{role}={member}",),
        create=(_gcloud(settings, *policy.group, "add-iam-policy-binding", *binding),),
        # The project and the bucket may be retained. They must not contain bindings of deleted accounts.
        delete=(_gcloud(settings, *policy.group, "remove-iam-policy-binding", *binding),),
        parent=policy.parent,
        api=policy.api,
    )


def _url(settings: InfraSettings) -> str:
    return f"gs://{settings.bucket_name}"


def _pool(settings: InfraSettings) -> str:
    """Return the workload identity pool of a project, which its first cluster creates."""
    return f"{settings.project}.svc.id.goog"


def _gcloud(settings: InfraSettings, *arguments: str) -> Argv:
    return ("gcloud", *arguments, f"--project={settings.project}")
