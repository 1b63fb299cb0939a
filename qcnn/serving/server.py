"""Processes of the server: sockets, signals, and one event loop a process."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from qcnn.errors import ConfigError, QcnnError
from qcnn.monitoring.logs import Formatter
from qcnn.process.operating_system import end_with_parent, has_fork_server
from qcnn.serving.application import Application
from qcnn.serving.metrics import SHARED_FOLDER, ServingMetrics
from qcnn.serving.repository import open_repository
from qcnn.serving.request_predictions import Limits, Predictions
from qcnn.serving.versions import ModelSource

logger = logging.getLogger("qcnn")

# Seconds in which a client must send the headers of a request, and after which an idle connection is closed.
_HEADER_SECONDS, _IDLE_SECONDS = 10.0, 30
_BACKLOG = 2048
# Seconds between two checks of the processes, and the minimum lifetime of a process that is replaced.
_CHECK_SECONDS, _MIN_LIFETIME = 0.2, 5.0


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Settings of the server.

    Attributes:
        sources: Path or URI of each model by name, and its versions to load.
        poll_seconds: Seconds between two polls of the models.
        limits: Limits of each process.
        batching: Whether concurrent requests are predicted together.
        trust: Whether Python functions may be imported.
        threads: Threads of a process that predict.
        drain_seconds: Maximum seconds for the answers to open requests after SIGTERM.
        grpc_address: Host and port of the gRPC server, or None without one.
    """

    sources: Mapping[str, ModelSource]
    poll_seconds: float
    limits: Limits
    batching: bool
    trust: bool
    threads: int
    drain_seconds: int
    grpc_address: str | None = None


def log_to_stderr() -> None:
    """Print the messages of this package on stderr, with their time, or as JSON if the environment requests it."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Protocol(HttpToolsProtocol):
    """HTTP protocol that closes a connection whose headers do not arrive in time."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = self.loop.call_later(_HEADER_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.close)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._cancel_deadline()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Server that drains on SIGTERM and SIGINT, and then returns instead of raising the signal again.

    A gRPC server starts and drains with it.
    """

    def __init__(
        self, config: uvicorn.Config, start_grpc: Callable[[], Awaitable[Any]] | None, drain_seconds: int
    ) -> None:
        super().__init__(config)
        self._start_grpc, self._drain_seconds = start_grpc, drain_seconds
        self._grpc: Any = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start both servers, and log their addresses when both accept requests."""
        await super().startup(sockets)
        if self._start_grpc:
            self._grpc = await self._start_grpc()
        for each in sockets or ():
            logger.info("serving on http://%s", _format_address(each))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain both servers at the same time."""
        draining = [super().shutdown(sockets)]
        if self._grpc:
            draining.append(self._grpc.stop(self._drain_seconds))
        await asyncio.gather(*draining)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Context manager that handles signals."""
        previous = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        # A second signal ends open requests.
        self.force_exit = self.should_exit
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: Address of the interface.
        port: Port, 0 for any free one.

    Raises:
        ConfigError: If the address cannot be used.
    """
    return _bound(host, port, socket.SO_REUSEADDR, "host: must be an address with a free port", listens=True)


def reserve(host: str, port: int) -> tuple[socket.socket, str]:
    """Return a socket that reserves a port on which the gRPC servers of all processes can listen, and its address.

    Args:
        host: Address of the interface.
        port: Port, 0 for any free one.

    Raises:
        ConfigError: If the address cannot be used.
    """
    rule = "grpc-port: must be a free port"
    # Only without the option of the reserved socket, a port of another server that has the option is not free.
    _bound(host, port, socket.SO_REUSEADDR, rule).close()
    reserved = _bound(host, port, socket.SO_REUSEPORT, rule)
    return reserved, _format_address(reserved)


def _bound(host: str, port: int, option: int, rule: str, *, listens: bool = False) -> socket.socket:
    """Return a socket with an option and an address.

    Raises:
        ConfigError: If the address cannot be used. It begins with the rule.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with contextlib.ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family))
            bound.setsockopt(socket.SOL_SOCKET, option, 1)
            bound.bind(address)
            if listens:
                bound.listen(_BACKLOG)
            stack.pop_all()
    except OSError as error:
        raise ConfigError(f"{rule} ({error.strerror}). Given: {host}:{port}") from None
    return bound


def _format_address(of: socket.socket) -> str:
    host, port, *_ = of.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(settings: ServerSettings, listener: socket.socket) -> None:
    """Serve on a socket until SIGTERM or SIGINT, then answer the open requests.

    Raises:
        ConfigError: If a model folder does not exist, or a bucket denies access.
    """
    metrics = ServingMetrics()
    with (
        ThreadPoolExecutor(settings.threads, "predict") as executor,
        open_repository(
            settings.sources,
            settings.poll_seconds,
            metrics.count_failure,
            trust=settings.trust,
        ) as repository,
    ):
        predictions = Predictions(metrics, settings.limits, executor, batching=settings.batching)
        application = Application(repository, metrics, settings.limits, predictions)
        config = uvicorn.Config(
            application,
            http=_Protocol,
            loop="uvloop",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=settings.drain_seconds,
        )
        # Its messages would be tracebacks of clients that send invalid HTTP.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        for name, model in repository.models.items():
            versions = ", ".join(map(str, model.versions)) or "none yet"
            logger.info("model %s: versions %s", name, versions)
        start_grpc = None
        if settings.grpc_address:
            # gRPC takes a while to load.
            from qcnn.serving.grpc_server import start_server

            start_grpc = functools.partial(
                start_server, settings.grpc_address, repository, metrics, settings.limits, predictions
            )
        _Server(config, start_grpc, settings.drain_seconds).run(sockets=[listener])


def serve_in_processes(settings: ServerSettings, listener: socket.socket, processes: int) -> None:
    """Serve on a socket in several processes until SIGTERM or SIGINT. A process that ends is replaced.

    Raises:
        ConfigError: If a process ends soon after its start.
    """
    context = multiprocessing.get_context("spawn")
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
        # The client of Prometheus reads the variable at its import, in the new processes.
        os.environ[SHARED_FOLDER] = folder
        previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

        def start() -> tuple[Any, float]:
            process = context.Process(target=_serve_process, args=(settings, listener, os.getpid()), daemon=True)
            process.start()
            return process, time.monotonic()

        running = [start() for _ in range(processes)]
        try:
            while not stopping:
                time.sleep(_CHECK_SECONDS)
                for number, (process, started) in enumerate(running):
                    if process.is_alive() or stopping:
                        continue
                    if time.monotonic() - started < _MIN_LIFETIME:
                        raise ConfigError(f"processes: must start. Given: exit code {process.exitcode}")
                    logger.warning("a process ended with exit code %s and is replaced", process.exitcode)
                    running[number] = start()
        finally:
            for process, _ in running:
                process.terminate()
            for process, _ in running:
                process.join(settings.drain_seconds + _MIN_LIFETIME)
                process.kill()
            for number, handler in previous.items():
                signal.signal(number, handler)
            del os.environ[SHARED_FOLDER]


def _serve_process(settings: ServerSettings, listener: socket.socket, parent: int) -> None:
    if has_fork_server():
        end_with_parent(parent)
    log_to_stderr()
    try:
        serve(settings, listener)
    except QcnnError as error:
        logger.error("%s", error)
        raise SystemExit(2) from None
