"""Connections between the processes of a training, whatever HTTP proxy the environment names."""

from collections.abc import MutableMapping

from qcnn.trainer.distribution.roles import Cluster

# Variables that name hosts which gRPC connects to without a proxy; the first that is set counts
# (github.com/grpc/grpc, doc/environment_variables.md).
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def connect_directly(cluster: Cluster, environment: MutableMapping[str, str]) -> None:
    """Exempt the hosts of a cluster from the proxy variables that gRPC reads in an environment.

    gRPC sends everything to the proxy of grpc_proxy, https_proxy or http_proxy, connections to this machine too.
    """
    named = next((environment[name] for name in _EXCEPTIONS if environment.get(name)), "")
    exempt = [name for name in named.split(",") if name]
    for addresses in cluster.addresses.values():
        for address in addresses:
            host = address.rpartition(":")[0].strip("[]")
            if host not in exempt:
                exempt.append(host)
    environment[_EXCEPTIONS[0]] = ",".join(exempt)
