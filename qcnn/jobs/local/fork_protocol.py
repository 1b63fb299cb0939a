"""What passes between a fork server and those who ask it for processes."""

import array
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

# Names the socket of a fork server, in Linux' abstract namespace, where nothing is left behind.
VARIABLE = "QCNN_FORK_SERVER"
# A server's first word to whoever started it: from now on it forks at once.
READY = b"R"
# First the child's process id, or REFUSED; then its exit code, or minus the number of the signal that ended it.
STATUS = "=i"
STATUS_SIZE = struct.calcsize(STATUS)
REFUSED = -1
_LENGTH = "=I"
_MOST_DESCRIPTORS = 16


def send_request(connection: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Ask for a process that gets duplicates of these descriptors."""
    content = json.dumps(request).encode()
    message = struct.pack(_LENGTH, len(content)) + content
    sent = socket.send_fds(connection, [message], list(descriptors))
    connection.sendall(message[sent:])


def receive_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request, and the descriptors that came with it.

    Raises:
        EOFError: the asker is gone.
    """
    size = struct.calcsize(_LENGTH)
    received = array.array("i")
    message, ancillary, _, _ = connection.recvmsg(
        size, socket.CMSG_SPACE(_MOST_DESCRIPTORS * received.itemsize), socket.MSG_WAITALL
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
    """Return a number from the server, None where it is gone."""
    try:
        content = connection.recv(STATUS_SIZE, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return int(struct.unpack(STATUS, content)[0]) if len(content) == STATUS_SIZE else None
