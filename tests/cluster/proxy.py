"""TCP proxy that can interrupt connections."""

import contextlib
import socket
import threading


class Proxy:
    """TCP proxy for an address, which rejects connections between `cut` and `mend`."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._accepts = True
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and reject new ones."""
        self._accepts = False
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def mend(self) -> None:
        """Accept new connections again."""
        self._accepts = True

    def close(self) -> None:
        """Close all connections and the listening socket."""
        self.cut()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if not self._accepts:
                    client.close()
                    continue
                server = socket.create_connection(self._address)
                self._pairs.append((client, server))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=pair, daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError), source, sink:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
