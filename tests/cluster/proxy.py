"""A way to the API server that can be cut."""

import contextlib
import socket
import threading


class Proxy:
    """Passes connections to an address on, and bytes on them, until it is cut and after it is mended."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._passing = True
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, and every further one at once."""
        self._passing = False
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def mend(self) -> None:
        """Pass new connections on again."""
        self._passing = True

    def close(self) -> None:
        """Break and refuse all."""
        self.cut()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if not self._passing:
                    client.close()
                    continue
                server = socket.create_connection(self._address)
                self._pairs.append((client, server))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError), source, sink:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
