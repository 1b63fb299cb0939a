"""Closes TensorFlow's servers to other machines: they listen on all interfaces, and take no address."""

import logging
import os
import socket
from collections.abc import Iterator

from qcnn.errors import one_line
from qcnn.operating_system import bind_to_machine, descriptors
from qcnn.trainer.distribution.roles import Cluster

logger = logging.getLogger("qcnn")

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def keep_to_machine(cluster: Cluster | None) -> None:
    """Let this process' server of a cluster answer this machine alone, if all of the cluster is here.

    It listens on all interfaces until this is called: TensorFlow starts it, and then waits for the others.
    """
    if cluster and cluster.is_here and (hosts := cluster.addresses.get(cluster.role)):
        keep_port_to_machine(int(hosts[cluster.index].rpartition(":")[2]))


def keep_port_to_machine(port: int) -> bool:
    """Let what listens at a port in this process answer this machine alone; return whether it does.

    A socket that listens already can still be bound to an interface, but not everywhere. Where it cannot, that is
    logged.
    """
    for listening in _listening():
        with listening:
            if listening.getsockname()[1] != port:
                continue
            try:
                bind_to_machine(listening)
            except OSError as error:
                logger.warning("port %d stays open to other machines (%s)", port, one_line(error))
                return False
    return True


def _listening() -> Iterator[socket.socket]:
    """Yield what of this process listens for connections, whichever library opened it, as sockets to be closed."""
    for number in descriptors():
        try:
            descriptor = os.dup(number)
        except OSError:
            # That of the listing itself, or one that has been closed meanwhile.
            continue
        try:
            found = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            continue
        if found.family in _FAMILIES and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            yield found
        else:
            found.close()
