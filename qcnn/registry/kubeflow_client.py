"""Requests to a Kubeflow Model Registry, by the client that Kubeflow generates from its API (mr_openapi).

The class ModelRegistry in the same package is not used: it configures logging and changes asyncio when it is imported,
and finds a model by a name in which an underscore means any character.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from qcnn.errors import ConfigError, QcnnError, single_line
from qcnn.registry.kubeflow_address import TOKEN_VARIABLE
from qcnn.storage.store import UnreachableError

# Path at which pods have the token of their service account (model_registry/_client.py).
_POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
# Versions of the API, the preferred one first. Their requests and responses have the same content.
_VERSIONS = ("v1", "v1alpha3")
_PATH = re.compile(r"(?<=^/api/model_registry/)[^/]+")
_TIMEOUT = 10.0
_PAGE_SIZE = "200"
_HIDDEN = "***"
# Statuses of a server that does not work, by contrast to one that rejects a request.
_UNAVAILABLE = (408, 429)

T = TypeVar("T")


class ConflictError(QcnnError):
    """Error of a request to create what exists."""


class KubeflowClient:
    """Client of a Kubeflow Model Registry. Each request has a time limit, and is sent once.

    Requests run in a separate thread, because the caller may be in an event loop.

    Args:
        url: URL of the server.
        address: Address for messages.

    Raises (by every request):
        ConfigError: If the server rejects a request, or the URL is not that of a Kubeflow Model Registry.
        UnreachableError: If the server does not respond.
        ConflictError: If the request creates what exists.
    """

    def __init__(self, url: str, address: str) -> None:
        self._url, self._address = url, address
        self._token: str | None = None
        self._client: Any = None
        self._api: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubeflow-client", daemon=True)
        self._thread.start()

    def request(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Return the response of a request.

        Args:
            name: Method of the generated client.
            *arguments: Its arguments.
            **named: Its named arguments.
        """
        with self._translated():
            return self._wait(self._request(name, *arguments, **named))

    def pages(self, name: str, *arguments: Any, **named: Any) -> list[Any]:
        """Return the items of all pages of a list. See `request` for the arguments."""
        found, token = list[Any](), None
        while True:
            page = self.request(name, *arguments, page_size=_PAGE_SIZE, next_page_token=token, **named)
            found += page.items or []
            if not (token := page.next_page_token):
                return found

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._client:
            with contextlib.suppress(Exception):
                self._wait(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    def _wait(self, awaitable: Awaitable[T]) -> T:
        async def limited() -> T:
            return await asyncio.wait_for(awaitable, _TIMEOUT)

        future = asyncio.run_coroutine_threadsafe(limited(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _request(self, name: str, *arguments: Any, **named: Any) -> Any:
        # The token in a pod is replaced every hour.
        self._token = _read_token()
        if self._api is None:
            await self._connect()
        self._client.configuration.access_token = self._token
        return await getattr(self._api, name)(*arguments, **named, _request_timeout=_TIMEOUT)

    async def _connect(self) -> None:
        """Create the client for the version of the API that the server has.

        Raises:
            ConfigError: If the server is not a Kubeflow Model Registry.
        """
        from mr_openapi import Configuration, ModelRegistryServiceApi
        from mr_openapi.exceptions import NotFoundException

        # Some releases require a running event loop.
        self._client = self._client or _client_class()(Configuration(host=self._url))
        self._client.configuration.access_token = self._token
        api = ModelRegistryServiceApi(self._client)
        for version in _VERSIONS:
            self._client.version = version
            with contextlib.suppress(NotFoundException):
                await api.get_registered_models(page_size="1", _request_timeout=_TIMEOUT)
                self._api = api
                return
        raise self._other_server()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Context manager that translates errors of the client, without secrets."""
        from mr_openapi.exceptions import ApiException

        try:
            yield
        except (QcnnError, ModuleNotFoundError):
            raise
        except ApiException as error:
            status = int(error.status or 0)
            if not status:
                # The response is no JSON.
                raise self._other_server() from None
            reason = self._redact(f"{_message_of(error)} (status {status})")
            if status == 409:
                raise ConflictError(reason) from None
            kind = ConfigError if 400 <= status < 500 and status not in _UNAVAILABLE else UnreachableError
            raise kind(f"registry: {reason}. Given: {self._address}") from None
        except ValueError:
            raise self._other_server() from None
        except Exception as error:  # The client raises errors of aiohttp and its own.
            raise UnreachableError(f"registry: {self._redact(_reason_of(error))}. Given: {self._address}") from None

    def _other_server(self) -> ConfigError:
        return ConfigError(f"registry: must be the URL of a Kubeflow Model Registry. Given: {self._address}")

    def _redact(self, text: object) -> str:
        return single_line(str(text).replace(self._token, _HIDDEN) if self._token else text)


def _client_class() -> Any:
    """Return the class of Kubeflow's client, with the version of the API in the paths of requests."""
    from mr_openapi import ApiClient

    class VersionedClient(ApiClient):
        version = _VERSIONS[0]

        def param_serialize(self, method: str, resource_path: str, *arguments: Any, **named: Any) -> Any:
            return super().param_serialize(method, _PATH.sub(self.version, resource_path), *arguments, **named)

    return VersionedClient


def _read_token() -> str | None:
    """Return the token that Kubeflow's client sends, or None.

    Raises:
        ConfigError: If the file that the environment names has no token.
    """
    named = os.environ.get(TOKEN_VARIABLE)
    try:
        token = Path(named or _POD_TOKEN).read_text().strip()
    except (OSError, ValueError) as error:
        if not named:
            return None
        reason = getattr(error, "strerror", None) or "it is no text"
    else:
        if token.isascii() and token.isprintable() and " " not in token:
            return token or None
        reason = "it is not one word"
    raise ConfigError(f"{TOKEN_VARIABLE}: must be the path of a token ({reason}). Given: {named or _POD_TOKEN}")


def _message_of(error: Any) -> str:
    """Return the message in the response of the server, or the reason of its status."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return str(json.loads(error.body)["message"])
    return str(error.reason)


def _reason_of(error: Exception) -> str:
    """Return the reason of an error without response as a short clause."""
    if isinstance(error, TimeoutError):
        return f"no response in {_TIMEOUT:g} s"
    inner = getattr(error, "os_error", None)
    if isinstance(inner, OSError):
        if inner.errno == errno.ECONNREFUSED:
            return "the connection is refused"
        if type(inner).__name__ == "gaierror":
            return "the host is unknown"
    return str(error).rstrip(".") or type(error).__name__
