"""Protocol between the fork server and its clients."""

import array
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

# Environment variable with the socket name of a fork server that a process shares with its child processes. The socket
# is in Linux's abstract namespace, so that no file is left behind.
VARIABLE = "QCNN_FORK_SERVER"
# Sent once to the process that started the server, when the modules are loaded.
READY = b"R"
# The first status is the child's process ID or REJECTED, the second its exit code or negative signal number.
STATUS = "=i"
STATUS_SIZE = struct.calcsize(STATUS)
REJECTED = -1
_LENGTH = "=I"
_MAX_DESCRIPTORS = 16


def send_request(connection: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Send a request for a process.

    Args:
        connection: Socket that is connected to the fork server.
        request: JSON-serializable request.
        descriptors: File descriptors of which the process gets duplicates, 16 at most.
    """
    content = json.dumps(request).encode()
    message = struct.pack(_LENGTH, len(content)) + content
    sent = socket.send_fds(connection, [message], list(descriptors))
    connection.sendall(message[sent:])


def receive_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and the file descriptors that were sent with it.

    Raises:
        EOFError: If the client has closed the connection.
    """
    size = struct.calcsize(_LENGTH)
    received = array.array("i")
    message, ancillary, _, _ = connection.recvmsg(
        size, socket.CMSG_SPACE(_MAX_DESCRIPTORS * received.itemsize), socket.MSG_WAITALL
    )
    for _, _, content in ancillary:
        received.frombytes(content)
    try:
        if len(message) < size:
            raise EOFError
        (length,) = struct.unpack(_LENGTH, message)
        text = connection.recv(length, socket.MSG_WAITALL)
        if len(text) < length:
            raise EOFError
        request: dict[str, Any] = json.loads(text)
    except BaseException:
        for descriptor in received:
            os.close(descriptor)
        raise
    return request, list(received)


def receive_status(connection: socket.socket) -> int | None:
    """Return the next status from the server, or None if the server has exited."""
    try:
        content = connection.recv(STATUS_SIZE, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return int(struct.unpack(STATUS, content)[0]) if len(content) == STATUS_SIZE else None
