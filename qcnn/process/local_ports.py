"""Ports of this machine that no other program gets before the process that they are for listens on them."""

import contextlib
import socket
from collections.abc import Iterator

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Context manager that reserves distinct free ports for servers of other processes.

    A port that is only chosen can be taken until its server starts, also as the local port of any program's outgoing
    connection, because the system chooses both from the same range. A port to which a socket is bound is not chosen
    again, while a server that sets SO_REUSEADDR, as those of gRPC and of Python do, can listen on it, because the
    socket itself does not listen (Linux, net/ipv4/inet_connection_sock.c, `inet_csk_bind_conflict`).

    Args:
        count: Number of ports.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((LOOPBACK, 0))
        yield [each.getsockname()[1] for each in sockets]
