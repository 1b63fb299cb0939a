"""ASGI application of the server: routes, limits and answers of both protocols."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

from qcnn.errors import format_value
from qcnn.process.installation import version
from qcnn.serving import metrics as metrics_module
from qcnn.serving import v1, v2
from qcnn.serving.errors import RequestError, not_found
from qcnn.serving.metrics import UNKNOWN, ServingMetrics
from qcnn.serving.repository import Repository
from qcnn.serving.request_predictions import Limits, Predictions

logger = logging.getLogger("qcnn")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_JSON = b"application/json"
_BINARY = b"application/octet-stream"
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[^/:]+)|/labels/(?P<label>[^/:]+))?"
_V1 = re.compile(_MODEL + r"(?P<action>:[a-z]+|/metadata)?", re.IGNORECASE)
_V2 = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?(?P<action>/infer|/ready)?")


class _Answer(NamedTuple):
    body: bytes
    status: int = HTTPStatus.OK
    content_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Route(NamedTuple):
    """Protocol and model of a request, for metrics."""

    protocol: str = ""
    model: str = UNKNOWN


class Application:
    """ASGI application (asgi.readthedocs.io, HTTP and lifespan)."""

    def __init__(
        self,
        repository: Repository,
        metrics: ServingMetrics,
        limits: Limits,
        predictions: Predictions,
    ) -> None:
        """Create the application.

        Args:
            repository: Served models.
            metrics: Metrics of the process.
            limits: Limits of the process.
            predictions: Predictions for the rows of requests.
        """
        self._repository, self._metrics, self._limits = repository, metrics, limits
        self._predictions = predictions
        self._active = 0
        self._server = v2.format_server(version())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        start, route = time.perf_counter(), _Route()
        try:
            self._active += 1
            path = scope["path"]
            route = self._route(path)
            answer = await self._answer(scope["method"], path, scope, receive)
        except RequestError as error:
            answer = _error(error.status, str(error))
        except _DisconnectedError:
            return
        except Exception:
            # Nothing of the inside is part of an answer.
            logger.exception("a request failed")
            answer = _error(HTTPStatus.INTERNAL_SERVER_ERROR, "server: failed to answer. Given: an unexpected error")
        finally:
            self._active -= 1
        if route.protocol:
            self._metrics.count_request(route.model, route.protocol, answer.status, time.perf_counter() - start)
        headers = [
            (b"content-type", answer.content_type),
            (b"content-length", str(len(answer.body)).encode()),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        await send({"type": "http.response.body", "body": answer.body if scope["method"] != "HEAD" else b""})

    def _route(self, path: str) -> _Route:
        for protocol, pattern in (("v1", _V1), ("v2", _V2)):
            if match := pattern.fullmatch(path):
                return _Route(protocol, match["name"] if match["name"] in self._repository.models else UNKNOWN)
        return _Route()

    async def _answer(self, method: str, path: str, scope: Scope, receive: Receive) -> _Answer:
        """Return the answer to a request.

        Raises:
            RequestError: If the request is invalid, or the server is full.
        """
        if fixed := self._fixed(path):
            _check_method(method, "GET")
            return fixed
        if self._active > self._limits.requests:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"server: must have at most {self._limits.requests} requests at the same time. Given: one more",
            )
        if match := _V1.fullmatch(path):
            return await self._v1(method, match, scope, receive)
        if match := _V2.fullmatch(path):
            return await self._v2(method, match, scope, receive)
        raise not_found(f"path: must be of /v1/models or /v2/models. Given: {format_value(path)}")

    def _fixed(self, path: str) -> _Answer | None:
        """Return the answer of a path without a model, or None if it has one."""
        match path:
            case "/metrics":
                return _Answer(self._metrics.text(), content_type=metrics_module.CONTENT_TYPE.encode())
            case "/v1/models":
                return _Answer(v1.format_names(self._repository.models))
            case "/v2":
                return _Answer(self._server)
            case "/v2/health/live":
                return _Answer(b'{"live":true}')
            case "/v2/health/ready" if self._repository.is_ready:
                return _Answer(b'{"ready":true}')
            case "/v2/health/ready":
                return _Answer(b'{"ready":false}', HTTPStatus.SERVICE_UNAVAILABLE)
        return None

    async def _v1(self, method: str, match: re.Match[str], scope: Scope, receive: Receive) -> _Answer:
        action = match["action"]
        model = self._repository.model(match["name"])
        if action in (":classify", ":regress"):
            raise not_found(f"action: must be :predict. Given: {action}")
        if action is None:
            _check_method(method, "GET")
            if match["version"] or match["label"]:
                versions = [model.resolve(match["version"], match["label"]).number]
            else:
                versions = model.versions
            return _Answer(v1.format_status(dict.fromkeys(versions, "AVAILABLE")))
        if action not in (":predict", "/metadata"):
            raise not_found(f"action: must be :predict. Given: {format_value(action)}")
        _check_method(method, "POST" if action == ":predict" else "GET")
        loaded = model.resolve(match["version"], match["label"])
        if action == "/metadata":
            return _Answer(v1.format_metadata(model.name, loaded.number, loaded.signature))
        body = await self._body(scope, receive)
        request = v1.parse_predict(body, loaded.signature)
        answers = await self._predictions.answers(model.name, loaded, request.inputs)
        return _Answer(v1.format_predictions(answers, request.form))

    async def _v2(self, method: str, match: re.Match[str], scope: Scope, receive: Receive) -> _Answer:
        model, action = self._repository.model(match["name"]), match["action"]
        if action == "/ready":
            _check_method(method, "GET")
            with contextlib.suppress(RequestError):
                model.resolve(match["version"])
                return _Answer(b'{"ready":true}')
            return _Answer(b'{"ready":false}', HTTPStatus.SERVICE_UNAVAILABLE)
        loaded = model.resolve(match["version"])
        if action is None:
            _check_method(method, "GET")
            return _Answer(v2.format_metadata(model.name, model.versions, loaded.signature))
        _check_method(method, "POST")
        body = await self._body(scope, receive)
        request = v2.parse_infer(body, _header(scope, v2.JSON_SIZE), loaded.signature)
        answers = await self._predictions.answers(model.name, loaded, request.inputs)
        content, size = v2.format_answer(model.name, loaded.number, request, answers, loaded.signature)
        if size is None:
            return _Answer(content)
        return _Answer(content, content_type=_BINARY, headers=((v2.JSON_SIZE.encode(), str(size).encode()),))

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request.

        Raises:
            RequestError: If it is too large or compressed, or does not arrive in time.
        """
        maximum = self._limits.body_bytes
        if (encoding := _header(scope, "content-encoding")) not in (None, "", "identity"):
            raise RequestError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"content-encoding: must be identity. Given: {format_value(encoding)}",
            )
        length = _header(scope, "content-length") or "0"
        if length.isdecimal() and int(length) > maximum:
            raise _too_large(maximum, length)
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _DisconnectedError
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > maximum:
                        raise _too_large(maximum, str(size))
                    if not message.get("more_body", False):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise RequestError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"body: must arrive within {self._limits.seconds:g} seconds. Given: {size} bytes",
            ) from None


class _DisconnectedError(Exception):
    """Error of a client that has closed its connection."""


def _check_method(method: str, expected: str) -> None:
    if method != expected and not (expected == "GET" and method == "HEAD"):
        raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"method: must be {expected}. Given: {format_value(method)}")


def _too_large(maximum: int, given: str) -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: must have at most {maximum} bytes. Given: {given[:20]}"
    )


def _error(status: int, line: str) -> _Answer:
    # The connection is closed, because the rest of a rejected body is not read.
    closing = ((b"connection", b"close"),) if status in _CLOSING else ()
    retry = ((b"retry-after", b"1"),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()
    return _Answer(v1.format_error(line), status, headers=(*closing, *retry))


_CLOSING = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


def _header(scope: Scope, name: str) -> str | None:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    wanted = name.encode()
    return next((value.decode("latin-1") for key, value in headers if key == wanted), None)


async def _lifespan(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
