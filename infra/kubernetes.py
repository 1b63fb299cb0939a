"""Resources created with kubectl: training operator, Kubeflow Pipelines, RBAC and network policies."""

from infra.commands import Argv, InfraResource
from infra.google import CLUSTER, VIEWER, WORKER, account_name, email
from infra.settings import InfraSettings

# Namespace in the manifests of the training operator and KFP. Single-user KFP runs its steps there.
NAMESPACE = "kubeflow"
# Kubernetes service accounts with bucket access: of training jobs, pipeline steps, the KFP UI (which displays
# artifacts), TensorBoard and model servers.
IDENTITIES = {
    "qcnn-worker": WORKER,
    "pipeline-runner": WORKER,
    "ml-pipeline-ui": VIEWER,
    "qcnn-tensorboard": VIEWER,
    "qcnn-server": VIEWER,
}

OPERATOR_VERSION = "v1.9.4"
PIPELINES_VERSION = "2.17.0"
# The default timeout of kustomize for git is 27 seconds.
_REFERENCE = "?ref={}&timeout=300s"
_OPERATOR = "github.com/kubeflow/training-operator/manifests/overlays/standalone" + _REFERENCE.format(OPERATOR_VERSION)
_PIPELINES = "github.com/kubeflow/pipelines/manifests/kustomize/{}" + _REFERENCE.format(PIPELINES_VERSION)
_ACCOUNT = "iam.gke.io/gcp-service-account"
_CRD = "customresourcedefinition.apiextensions.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_IN_NAMESPACE = (f"--namespace={NAMESPACE}",)
_NAMES = ("--ignore-not-found", "--output=name")
# Relative to the repository root, where commands run.
_RIGHTS = ("-f", "deploy/rbac.yaml", "-f", "deploy/kubeflow.yaml")
_NETWORK = ("-f", "deploy/network.yaml")


def in_cluster(settings: InfraSettings) -> list[InfraResource]:
    """Return the resources inside the cluster.

    They are deleted with the cluster, except the namespace: its disks would remain.
    """
    return [
        InfraResource(
            name="namespace",
            description=f"namespace {NAMESPACE} of Kubeflow Pipelines and training jobs",
            describe=_existing(settings, f"namespace/{NAMESPACE}"),
            expected=(f"namespace/{NAMESPACE}",),
            create=(_kubectl(settings, "create", "namespace", NAMESPACE),),
            delete=(_kubectl(settings, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=15m"),),
            data_loss="the disks of Kubeflow's database and artifact store",
            parent=CLUSTER,
        ),
        _manifests(
            *(settings, "training operator", f"Kubeflow training operator {OPERATOR_VERSION} for TFJobs"),
            (_kubectl(settings, "apply", "--server-side", "-k", _OPERATOR),),
            (f"{_CRD}/tfjobs.kubeflow.org", "deployment.apps/training-operator"),
            # Applied last.
            ("validatingwebhookconfiguration.admissionregistration.k8s.io/validator.training-operator.kubeflow.org",),
        ),
        _manifests(
            *(settings, "pipelines CRDs", f"CRDs of Kubeflow Pipelines {PIPELINES_VERSION} and Argo"),
            (
                _kubectl(settings, "apply", "-k", _PIPELINES.format("cluster-scoped-resources")),
                _kubectl(
                    settings, "wait", "--for=condition=Established", "--timeout=60s", "crd/applications.app.k8s.io"
                ),
            ),
            (f"{_CRD}/applications.app.k8s.io", f"{_CRD}/workflows.argoproj.io"),
            ("configmap/kfp-cluster-scoped-params",),
        ),
        _manifests(
            *(settings, "pipelines", f"Kubeflow Pipelines {PIPELINES_VERSION}, single-user"),
            (_kubectl(settings, "apply", "-k", _PIPELINES.format("env/platform-agnostic")),),
            ("serviceaccount/pipeline-runner", "deployment.apps/ml-pipeline", "deployment.apps/workflow-controller"),
            ("networkpolicy.networking.k8s.io/seaweedfs",),
        ),
        InfraResource(
            name="RBAC",
            description="permissions of pipeline steps and workers: deploy/rbac.yaml, deploy/kubeflow.yaml",
            describe=_kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *_RIGHTS),
            expected=(
                *(f"serviceaccount/qcnn-{who}" for who in ("launcher", "worker", "tensorboard", "server")),
                *(f"role.{_RBAC}/qcnn-{who}" for who in ("launcher", "worker", "user")),
                *(f"rolebinding.{_RBAC}/qcnn-{who}" for who in ("launcher", "worker", "launcher-steps")),
            ),
            create=(_kubectl(settings, "apply", *_IN_NAMESPACE, *_RIGHTS),),
            parent=CLUSTER,
        ),
        InfraResource(
            name="network policies",
            description="workers accept connections only from workers: deploy/network.yaml",
            describe=_kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *_NETWORK),
            expected=("networkpolicy.networking.k8s.io/qcnn-trainings",),
            create=(_kubectl(settings, "apply", *_IN_NAMESPACE, *_NETWORK),),
            parent=CLUSTER,
        ),
        *(_annotation(settings, account, owner) for account, owner in IDENTITIES.items()),
    ]


def wait_until_ready(settings: InfraSettings) -> Argv:
    """Return the command that waits until all deployments in the namespace are available."""
    return _kubectl(
        settings, "wait", "--for=condition=Available", "deployment", "--all", *_IN_NAMESPACE, "--timeout=20m"
    )


def _manifests(
    settings: InfraSettings,
    name: str,
    description: str,
    create: tuple[Argv, ...],
    first: tuple[str, ...],
    last: tuple[str, ...],
) -> InfraResource:
    """Return the objects of a folder of manifests.

    `first` and `last` are some of the objects. kubectl applies those of `last` last, so that an interruption is
    detected.
    """
    expected = (*first, *last)
    return InfraResource(
        name=name,
        description=description,
        describe=_existing(settings, *expected),
        expected=expected,
        create=create,
        parent=CLUSTER,
    )


def _annotation(settings: InfraSettings, account: str, owner: str) -> InfraResource:
    address = email(settings, account_name(settings, owner))
    path = _ACCOUNT.replace(".", r"\.")
    of_account = (*_IN_NAMESPACE, "serviceaccount", account)
    return InfraResource(
        name=f"account of {account}",
        description=f"pods that run as {account} request the credentials of the {owner}",
        describe=_kubectl(
            settings, "get", *of_account, "--ignore-not-found", f"--output=jsonpath={{.metadata.annotations.{path}}}"
        ),
        expected=(address,),
        create=(_kubectl(settings, "annotate", *of_account, "--overwrite", f"{_ACCOUNT}={address}"),),
        parent=CLUSTER,
    )


def _existing(settings: InfraSettings, *objects: str) -> Argv:
    return _kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *objects)


def _kubectl(settings: InfraSettings, *arguments: str) -> Argv:
    """Return a kubectl command with the context of this cluster."""
    context = f"gke_{settings.project}_{settings.zone}_{settings.cluster_name}"
    return ("kubectl", f"--context={context}", *arguments)
