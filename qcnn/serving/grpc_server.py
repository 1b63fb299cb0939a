"""gRPC server of both protocols, beside the HTTP server of a process."""

import functools
import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from qcnn.serving import grpc_v1, grpc_v2
from qcnn.serving.errors import RequestError, bad_request
from qcnn.serving.metrics import UNKNOWN, ServingMetrics
from qcnn.serving.repository import Repository
from qcnn.serving.request_predictions import Limits, Predictions

logger = logging.getLogger("qcnn")

# Milliseconds in which a client must complete the handshake, and after which an idle connection is closed.
_HANDSHAKE_MS, _IDLE_MS = 10_000, 300_000
# Status code of each error of a request (google.rpc.Code).
_CODES = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
}


async def start_server(
    address: str, repository: Repository, metrics: ServingMetrics, limits: Limits, predictions: Predictions
) -> grpc.aio.Server:
    """Start a server that listens on an address, in the event loop of the caller, and return it.

    Args:
        address: Host and port.
        repository: Served models.
        metrics: Metrics of the process.
        limits: Limits of the process.
        predictions: Predictions for the rows of requests.
    """
    server = grpc.aio.server(
        maximum_concurrent_rpcs=limits.requests,
        options=(
            ("grpc.max_receive_message_length", limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.so_reuseport", 1),
        ),
    )
    for protocol, services in (
        ("v1-grpc", grpc_v1.methods(repository, predictions, limits.rows)),
        ("v2-grpc", grpc_v2.methods(repository, predictions)),
    ):
        for service, methods in services.items():
            handlers = {
                name: grpc.unary_unary_rpc_method_handler(
                    functools.partial(_call, kind, function, protocol, repository, metrics),
                    response_serializer=lambda message: message.SerializeToString(),
                )
                for name, (kind, function) in methods.items()
            }
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(address)
    await server.start()
    logger.info("serving gRPC on %s", address)
    return server


async def _call(
    kind: Any,
    function: Callable[[Any], Awaitable[Any]],
    protocol: str,
    repository: Repository,
    metrics: ServingMetrics,
    body: bytes,
    context: Any,
) -> Any:
    """Answer a call, or end it with the status code of its error."""
    start, name, code, line = time.perf_counter(), UNKNOWN, grpc.StatusCode.OK, ""
    response = None
    try:
        request = _parse(kind, body)
        name = _model_of(request, repository)
        response = await function(request)
    except RequestError as error:
        code, line = _CODES.get(error.status, grpc.StatusCode.INVALID_ARGUMENT), str(error)
    except Exception:
        # Nothing of the inside is part of an answer.
        logger.exception("a request failed")
        code, line = grpc.StatusCode.INTERNAL, "server: failed to answer. Given: an unexpected error"
    metrics.count_request(name, protocol, code.name, time.perf_counter() - start)
    if code != grpc.StatusCode.OK:
        await context.abort(code, line)
    return response


def _parse(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError:
        raise bad_request(f"message: must be a {kind.DESCRIPTOR.name}. Given: {len(body)} bytes of another") from None


def _model_of(request: Any, repository: Repository) -> str:
    """Return the name of the model of a request, for metrics."""
    fields = request.DESCRIPTOR.fields_by_name
    if "model_spec" in fields:
        name = request.model_spec.name
    else:
        name = next((getattr(request, field) for field in ("model_name", "name") if field in fields), "")
    return name if name in repository.models else UNKNOWN
