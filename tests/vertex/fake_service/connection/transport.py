"""gRPC server over TLS that dispatches methods to handlers and converts errors to gRPC statuses."""

import concurrent.futures
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from tests.vertex.fake_service.connection.faults import Faults, LostError
from tests.vertex.fake_service.connection.front import Front
from tests.vertex.fake_service.connection.methods import Method, methods_of
from tests.vertex.fake_service.errors import StatusError

# Maps a request message to its response message.
Handler = Callable[[Any], Any]
_THREADS = 32


class Transport:
    """Server of the handlers' services. All other methods return UNIMPLEMENTED."""

    def __init__(self, handlers: Mapping[str, Handler], faults: Faults, key: bytes, certificate: bytes) -> None:
        self._handlers, self._faults = handlers, faults
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(_THREADS))
        for service in sorted({name.partition("/")[0] for name in handlers}):
            methods = methods_of(service)
            table = {method.path.rpartition("/")[2]: self._handler(method) for method in methods}
            path = methods[0].path.split("/")[1]
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(path, table)])
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        self._front = Front(self._server.add_secure_port("127.0.0.1:0", credentials))
        self._server.start()
        self.endpoint = f"localhost:{self._front.port}"

    def cut_connections(self) -> None:
        """Abort all connections of clients."""
        self._front.cut()

    def close(self) -> None:
        """Abort all connections and stop the server."""
        self._server.stop(None).wait()
        self._front.close()

    def _handler(self, method: Method) -> grpc.RpcMethodHandler:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            return self._answer(method.name, request, context)

        return grpc.unary_unary_rpc_method_handler(answer, method.read, method.write)

    def _answer(self, name: str, request: Any, context: grpc.ServicerContext) -> Any:
        if "authorization" not in dict(context.invocation_metadata()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Request is missing required authentication credential.")
        handler = self._handlers.get(name)
        if not handler:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"This server does not implement {name}.")
            raise AssertionError
        try:
            return self._faults.answer(name, lambda: handler(request))
        except StatusError as error:
            context.abort(error.code, error.message)
        except LostError:
            self.cut_connections()
            context.abort(grpc.StatusCode.UNAVAILABLE, "The connection is closed.")
