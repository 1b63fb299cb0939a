"""Reserved ports are free for their servers only."""

import errno
import http.server
import socket

import pytest

from qcnn.process.local_ports import LOOPBACK, reserved_ports


def test_reserved_port_is_left_to_its_server() -> None:
    with reserved_ports(3) as ports:
        assert len(set(ports)) == 3
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, port))
            # The system does not choose a port for another program to which this bind fails.
            with socket.socket() as other, pytest.raises(OSError, match="in use") as raised:
                other.bind((LOOPBACK, port))
            assert raised.value.errno == errno.EADDRINUSE
            with http.server.HTTPServer((LOOPBACK, port), http.server.BaseHTTPRequestHandler):
                socket.create_connection((LOOPBACK, port)).close()
