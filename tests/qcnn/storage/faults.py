"""HTTP proxy to an object store that injects faults."""

import contextlib
import http.client
import http.server
import threading
import urllib.parse
from collections.abc import Sequence

# A broken connection transfers 1 / _HALF of the content.
_HALF = 2
_HOP_BY_HOP = ("transfer-encoding", "connection", "content-length")


class FaultyProxy:
    """Proxy that forwards requests to a server, with the faults set by `next_faults`."""

    def __init__(self, server: str) -> None:
        self._faults: dict[str, list[str]] = {}
        self.suffered: list[str] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler(server))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def next_faults(self, method: str, faults: Sequence[str]) -> None:
        """Set the faults of the next requests of a method, in order: a status, slow, cut-request or cut-answer."""
        self._faults[method] = list(faults)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self, server: str) -> type[http.server.BaseHTTPRequestHandler]:
        proxy = self
        address = urllib.parse.urlsplit(server).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                faults = proxy._faults.get(self.command, [])
                fault = faults.pop(0) if faults else ""
                if fault:
                    proxy.suffered.append(fault)
                length = int(self.headers.get("Content-Length", 0))
                if fault == "cut-request":
                    self.rfile.read(length // _HALF)
                    self.close_connection = True
                    return
                body = self.rfile.read(length)
                if fault.isdecimal():
                    self._answer(int(fault), [], b"")
                    return
                with contextlib.closing(http.client.HTTPConnection(address)) as connection:
                    connection.request(self.command, self.path, body, {**dict(self.headers), "Host": address})
                    answer = connection.getresponse()
                    content = answer.read()
                headers = [
                    (name, value.replace(server, proxy.url))
                    for name, value in answer.getheaders()
                    if name.lower() not in _HOP_BY_HOP
                ]
                if fault == "slow":
                    threading.Event().wait(0.2)
                self._answer(answer.status, headers, content, cut=fault == "cut-answer")

            def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[: len(content) // _HALF] if cut else content)
                if cut:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler._pass_on)
        return Handler
