"""Whether the pods of a training may read its Lease: asked before pods are created that would fail for it."""

from qcnn.jobs.kubernetes.api import REVIEWS, Api
from qcnn.jobs.kubernetes.refusals import RefusedError
from qcnn.jobs.tfjob import lease_right
from qcnn.trainer.errors import ConfigError


def check_lease_right(api: Api, account: str, lease: str) -> None:
    """Refuse a service account that may not read its launcher's Lease; do nothing where that may not be asked.

    Raises:
        ConfigError: it may not; one line with the role, and the binding to make.
    """
    accounts = "system:serviceaccounts"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": api.namespace},
        "spec": {
            "user": f"system:serviceaccount:{api.namespace}:{account}",
            # The groups of every service account (Kubernetes, "Authenticating").
            "groups": [accounts, f"{accounts}:{api.namespace}", "system:authenticated"],
            "resourceAttributes": {
                "namespace": api.namespace,
                "verb": "get",
                "group": "coordination.k8s.io",
                "resource": "leases",
                "name": lease,
            },
        },
    }
    try:
        answer = api.create(REVIEWS, review)
    except RefusedError:
        return
    if answer and not answer["status"]["allowed"]:
        raise ConfigError(lease_right.missing(account, api.namespace))
