"""The right of a training's pods to read their Lease, and how they get it; imports nothing heavy."""

# In deploy/rbac.yaml.
ROLE = "qcnn-worker"


def missing(account: str, namespace: str) -> str:
    """Return one line: a service account may not read Leases, and what gives it the right."""
    binding = (
        f"kubectl -n {namespace} create rolebinding {account}-{ROLE} --role {ROLE} "
        f"--serviceaccount {namespace}:{account}"
    )
    return (
        f"permission: the pods' service account may not read the Lease by which they see that their launcher is there; "
        f"bind role {ROLE} (deploy/rbac.yaml) to it: {binding}. Given: service account {account}"
    )
