"""What is made inside the cluster by kubectl: the training operator, Kubeflow Pipelines, and what trainings may do."""

from infra.commands import Argv, InfraResource
from infra.google import CLUSTER, VIEWER, WORKER, email, owned
from infra.settings import InfraSettings

# The manifests of both parts of Kubeflow name it, and a backend for one user runs its steps there.
NAMESPACE = "kubeflow"
# Service accounts of the cluster that reach the bucket: those of trainings, of a pipeline's steps, of Kubeflow's web
# interface (which shows reports and other artifacts), and of a TensorBoard.
IDENTITIES = {
    "qcnn-worker": WORKER,
    "pipeline-runner": WORKER,
    "ml-pipeline-ui": VIEWER,
    "qcnn-tensorboard": VIEWER,
}

OPERATOR_VERSION = "v1.9.4"
PIPELINES_VERSION = "2.17.0"
# kustomize gives git 27 seconds otherwise.
_REFERENCE = "?ref={}&timeout=300s"
_OPERATOR = "github.com/kubeflow/training-operator/manifests/overlays/standalone" + _REFERENCE.format(OPERATOR_VERSION)
_PIPELINES = "github.com/kubeflow/pipelines/manifests/kustomize/{}" + _REFERENCE.format(PIPELINES_VERSION)
_ACCOUNT = "iam.gke.io/gcp-service-account"
_CRD = "customresourcedefinition.apiextensions.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_IN_NAMESPACE = (f"--namespace={NAMESPACE}",)
_NAMES = ("--ignore-not-found", "--output=name")
# Files of the checkout, at whose root commands are run.
_RIGHTS = ("-f", "deploy/rbac.yaml", "-f", "deploy/kubeflow.yaml")
_NETWORK = ("-f", "deploy/network.yaml")


def in_cluster(settings: InfraSettings) -> list[InfraResource]:
    """Return what is in the cluster; all of it but the namespace, whose disks would stay, goes along with it."""
    return [
        InfraResource(
            name="namespace",
            description=f"the namespace {NAMESPACE}, in which everything runs",
            describe=_existing(settings, f"namespace/{NAMESPACE}"),
            expected=(f"namespace/{NAMESPACE}",),
            create=(_kubectl(settings, "create", "namespace", NAMESPACE),),
            delete=(_kubectl(settings, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=15m"),),
            data_loss="the disks of Kubeflow's database and of its own artifact store",
            parent=CLUSTER,
        ),
        _manifests(
            *(settings, "training operator", f"Kubeflow's training operator {OPERATOR_VERSION}, which runs TFJobs"),
            (_kubectl(settings, "apply", "--server-side", "-k", _OPERATOR),),
            (f"{_CRD}/tfjobs.kubeflow.org", "deployment.apps/training-operator"),
            # Applied last.
            ("validatingwebhookconfiguration.admissionregistration.k8s.io/validator.training-operator.kubeflow.org",),
        ),
        _manifests(
            *(settings, "pipelines' types", f"the types of Kubeflow Pipelines {PIPELINES_VERSION} and of Argo"),
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
            *(settings, "pipelines", f"Kubeflow Pipelines {PIPELINES_VERSION}, for one user"),
            (_kubectl(settings, "apply", "-k", _PIPELINES.format("env/platform-agnostic")),),
            ("serviceaccount/pipeline-runner", "deployment.apps/ml-pipeline", "deployment.apps/workflow-controller"),
            ("networkpolicy.networking.k8s.io/seaweedfs",),
        ),
        InfraResource(
            name="rights of trainings",
            description="what steps and workers may do in the namespace: deploy/rbac.yaml, deploy/kubeflow.yaml",
            describe=_kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *_RIGHTS),
            expected=(
                *(f"serviceaccount/qcnn-{who}" for who in ("launcher", "worker", "tensorboard")),
                *(f"role.{_RBAC}/qcnn-{who}" for who in ("launcher", "worker", "user")),
                *(f"rolebinding.{_RBAC}/qcnn-{who}" for who in ("launcher", "worker", "launcher-steps")),
            ),
            create=(_kubectl(settings, "apply", *_IN_NAMESPACE, *_RIGHTS),),
            parent=CLUSTER,
        ),
        InfraResource(
            name="network of trainings",
            description="only workers reach workers: deploy/network.yaml",
            describe=_kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *_NETWORK),
            expected=("networkpolicy.networking.k8s.io/qcnn-trainings",),
            create=(_kubectl(settings, "apply", *_IN_NAMESPACE, *_NETWORK),),
            parent=CLUSTER,
        ),
        *(_annotation(settings, account, owner) for account, owner in IDENTITIES.items()),
    ]


def wait_until_ready(settings: InfraSettings) -> Argv:
    """Return the command that ends when everything that was installed answers."""
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
    """Return what a folder of manifests makes, seen by some of its objects: `last` is what is applied last."""
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
    address = email(settings, owned(settings, owner))
    path = _ACCOUNT.replace(".", r"\.")
    of_account = (*_IN_NAMESPACE, "serviceaccount", account)
    return InfraResource(
        name=f"account of {account}",
        description=f"pods that run as {account} ask for the credentials of the {owner}",
        describe=_kubectl(
            settings, "get", *of_account, "--ignore-not-found", f"--output=jsonpath={{.metadata.annotations.{path}}}"
        ),
        expected=(address,),
        create=(_kubectl(settings, "annotate", *of_account, "--overwrite", f"{_ACCOUNT}={address}"),),
        parent=CLUSTER,
    )


def _existing(settings: InfraSettings, *objects: str) -> Argv:
    return _kubectl(settings, "get", *_IN_NAMESPACE, *_NAMES, *objects)


def _kubectl(settings: InfraSettings, *words: str) -> Argv:
    """Return a command for this cluster and no other, whichever the user's own kubeconfig means."""
    context = f"gke_{settings.project}_{settings.zone}_{settings.cluster_name}"
    return ("kubectl", f"--context={context}", *words)
