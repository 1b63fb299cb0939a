"""Everything that is made, in the order in which it is."""

from infra.google import accounts, cluster, identity, project_and_services, storage
from infra.kubernetes import IDENTITIES, NAMESPACE, in_cluster
from infra.resource import Resource
from infra.settings import Settings


def resources(settings: Settings) -> tuple[Resource, ...]:
    """Return all resources, each after those that it needs."""
    return (
        *project_and_services(settings),
        *storage(settings),
        *accounts(settings),
        *cluster(settings),
        # The pool of identities is there once a cluster is.
        *(identity(settings, account, NAMESPACE, owner) for account, owner in IDENTITIES.items()),
        *in_cluster(settings),
    )
