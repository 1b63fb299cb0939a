"""Access reviews: whether this client, or a service account, has a right."""

from qcnn.jobs.kubernetes.api import OWN_REVIEWS, REVIEWS, NamespaceClient

_VERSION = "authorization.k8s.io/v1"
_ACCOUNTS = "system:serviceaccounts"


def is_allowed(
    api: NamespaceClient, verb: str, group: str, resource: str, *, name: str = "", account: str = ""
) -> bool:
    """Return whether the API server allows an action in the namespace.

    Args:
        api: Client of the namespace.
        verb: Verb of the action.
        group: API group of the resource.
        resource: Resource type, and its subresource after a slash.
        name: Name of the object. Empty: all objects.
        account: Service account of the namespace. Empty: this client.

    Raises:
        RequestRejectedError: If this client may not ask.
    """
    kind, _, subresource = resource.partition("/")
    attributes = {"namespace": api.namespace, "verb": verb, "group": group, "resource": kind}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"name": name} if name else {}
    if not account:
        own = {"apiVersion": _VERSION, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        answer = api.create(OWN_REVIEWS, own)
    else:
        review = {
            "apiVersion": _VERSION,
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": api.namespace},
            "spec": {
                "user": f"system:serviceaccount:{api.namespace}:{account}",
                # The groups of every service account (Kubernetes, "Authenticating").
                "groups": [_ACCOUNTS, f"{_ACCOUNTS}:{api.namespace}", "system:authenticated"],
                "resourceAttributes": attributes,
            },
        }
        answer = api.create(REVIEWS, review)
    return answer is not None and bool(answer["status"]["allowed"])
