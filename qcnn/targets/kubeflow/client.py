"""KFP connection settings, the KFP client, and its errors as single-line messages."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import urllib3

from qcnn.errors import MAX_MESSAGE_LENGTH, service_message, single_line
from qcnn.targets.cluster import ClusterConnection
from qcnn.targets.errors import BackendError, CredentialsError, UnavailableError, suppress_output
from qcnn.targets.settings import setting

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


_LOGIN = "log in with --token, --cookies or --iap-client-id"
_WEB_PAGE = re.compile(rb"\s*<(!doctype|html)", re.IGNORECASE)
_CAUSE = re.compile(r"\[(?:Errno -?\d+|SSL: \w+)\] ([^'\"()]+)")


@contextlib.contextmanager
def translate_errors(address: str) -> Iterator[None]:
    """Context manager that translates exceptions of KFP requests to single-line errors.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    import google.auth.exceptions
    import kfp_server_api

    try:
        yield
    except kfp_server_api.ApiException as error:
        raise _api_error(error, address) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(f"credentials: Google issued none ({single_line(error)}). Given: {address}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise UnavailableError(f"host: no response ({_cause(error)}). Given: {address}") from None


def check_is_api(answer: bytes, address: str) -> None:
    """Raise BackendError if a response, possibly with status 200, is not from the KFP API.

    Raises:
        BackendError: If the response is a web page or not JSON.
    """
    if not _is_json(answer):
        raise BackendError(_not_the_api(answer, address))


def _api_error(error: kfp_server_api.ApiException, address: str) -> BackendError:
    body = error.body if isinstance(error.body, bytes) else (error.body or "").encode()
    reason = _reason(body) or single_line(error.reason or "")
    match error.status:
        case 401:
            return CredentialsError(f"credentials: rejected; {_LOGIN}. Given: {address}")
        case 403:
            return BackendError(f"permission: denied ({reason}); check the namespace. Given: {address}")
        case 400 | 404 if _is_json(body):
            message = f"request: rejected by the backend at {address}. Given: {reason}"
            return BackendError(message, MAX_MESSAGE_LENGTH)
        case status if status < 500:
            return BackendError(_not_the_api(body, address))
    return UnavailableError(f"host: the backend failed ({error.status}, {reason}). Given: {address}")


def _not_the_api(answer: bytes, address: str) -> str:
    hint = f"returned a web page; for a login page, {_LOGIN}" if _WEB_PAGE.match(answer) else "returned other content"
    return f"host: must be the URL of the KFP API server, but {hint}. Given: {address}"


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _reason(body: bytes) -> str:
    """Return the message of an error response of the API."""
    try:
        content = json.loads(body)
    except ValueError:
        return "" if _WEB_PAGE.match(body) else service_message(body.decode(errors="replace"))
    return service_message(content.get("message") or content.get("error") or content) if content else ""


def _cause(error: BaseException) -> str:
    """Return the cause of a connection error, without the class names of the libraries."""
    while isinstance(reason := getattr(error, "reason", None), BaseException):
        error = reason
    text = single_line(error)
    found = _CAUSE.search(text)
    return found[1].strip() if found else text


# Namespace of a single-user backend. The KFP client handles any other namespace as a user's.
SINGLE_USER = "kubeflow"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KfpConnection(ClusterConnection):
    """Address and credentials of a KFP backend. The KFP client resolves values of None.

    Raises:
        ConfigError: If the namespace is not a valid Kubernetes name.
    """

    host: str | None = setting(
        "URL of the KFP API server.",
        None,
        shown="the cluster of KUBECONFIG, or in a pod its cluster",
        variables=("KF_PIPELINES_ENDPOINT",),
        metavar="URL",
    )
    namespace: str | None = setting(
        "Your namespace. Required for multi-user KFP.",
        None,
        variables=("KFP_NAMESPACE",),
        metavar="NAME",
        short="n",
    )
    ui_host: str | None = setting(
        "URL of the KFP UI.", None, shown="the host", variables=("KF_PIPELINES_UI_ENDPOINT",), metavar="URL"
    )
    token: str | None = setting(
        "Bearer token.", None, variables=("KFP_EXISTING_TOKEN",), metavar="TEXT", is_secret=True
    )
    cookies: str | None = setting(
        "Login cookies, as NAME=VALUE.", None, variables=("KFP_COOKIES",), metavar="TEXT", is_secret=True
    )
    iap_client_id: str | None = setting(
        "Client ID of Identity-Aware Proxy.",
        None,
        variables=("KF_PIPELINES_IAP_OAUTH2_CLIENT_ID",),
        metavar="ID",
    )
    oauth_client_id: str | None = setting(
        "OAuth client ID for user logins to Identity-Aware Proxy.",
        None,
        variables=("KF_PIPELINES_APP_OAUTH2_CLIENT_ID",),
        metavar="ID",
    )
    oauth_client_secret: str | None = setting(
        "OAuth client secret for Identity-Aware Proxy.",
        None,
        variables=("KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET",),
        metavar="TEXT",
        is_secret=True,
    )
    ca_cert: str | None = setting("CA bundle to verify the host.", None, metavar="FILE")
    metadata_host: str | None = setting("URL of the ML Metadata service.", None, shown="the UI host", metavar="URL")

    @property
    def address(self) -> str:
        """The address of the backend, for messages."""
        return self.host or "the cluster of KUBECONFIG"

    @property
    def interface(self) -> str:
        """The URL of the KFP UI without a final slash, or empty if neither it nor the host is given."""
        host = self.ui_host or self.host or ""
        return (host if "://" in host or not host else f"https://{host}").rstrip("/")


# A login page may have one of the last two.
_PAGE_STATUSES = (*range(200, 300), 401, 403)
_PAGE_SECONDS = 5.0


def page_of(backend: KfpConnection, path: str) -> str:
    """Return the URL of a page of the KFP UI, or empty if no web interface answers, such as at the URL of the API.

    Args:
        backend: Connection settings.
        path: Path of the page in the UI.
    """
    if not backend.interface:
        return ""
    retries = urllib3.Retry(connect=0, read=0, redirect=5)
    try:
        with urllib3.PoolManager(ca_certs=backend.ca_cert, timeout=_PAGE_SECONDS, retries=retries) as pool:
            answer = pool.request("GET", f"{backend.interface}/", preload_content=False)
            kind = answer.headers.get("Content-Type", "")
            is_page = answer.status in _PAGE_STATUSES and kind.startswith("text/html")
            answer.release_conn()
    except (urllib3.exceptions.HTTPError, OSError):
        return ""
    return f"{backend.interface}/#/{path}" if is_page else ""


def connect(backend: KfpConnection) -> kfp.Client:
    """Return a KFP client after a successful health check.

    Raises:
        BackendError: If the host is unavailable, is not the KFP API, or rejects the credentials.
    """
    with suppress_output():
        import kfp

        class Client(kfp.Client):
            def get_kfp_healthz(self, sleep_duration: int = 0) -> kfp_server_api.V2beta1GetHealthzResponse:
                """Request the health status once. The original retries for 25 seconds and logs tracebacks."""
                answer = _health_response(self, backend.address)
                return self._healthz_api.api_client.deserialize(answer, "V2beta1GetHealthzResponse")

        with translate_errors(backend.address):
            client = Client(
                host=backend.host,
                namespace=backend.namespace or SINGLE_USER,
                client_id=backend.iap_client_id,
                other_client_id=backend.oauth_client_id,
                other_client_secret=backend.oauth_client_secret,
                existing_token=backend.token,
                cookies=backend.cookies,
                ssl_ca_cert=backend.ca_cert,
            )
            client.get_kfp_healthz()
    return client


def health(client: kfp.Client, address: str) -> dict[str, object]:
    """Return the health status of a backend, with its version.

    Raises:
        BackendError: If there is no response, or it is not from the KFP API.
    """
    with translate_errors(address):
        return dict(json.loads(_health_response(client, address).data))


def _health_response(client: kfp.Client, address: str) -> urllib3.HTTPResponse:
    answer: urllib3.HTTPResponse = client._healthz_api.healthz_service_get_healthz(_preload_content=False)
    check_is_api(answer.data, address)
    return answer


class KfpBackend:
    """A KFP backend with its connection settings. Its client is connected at first use."""

    def __init__(self, connection: KfpConnection) -> None:
        self.connection, self.address, self.namespace = connection, connection.address, connection.namespace

    @functools.cached_property
    def client(self) -> kfp.Client:
        """KFP client after a successful health check.

        Raises:
            BackendError: If the host is unavailable, is not the KFP API, or rejects the credentials.
        """
        return connect(self.connection)

    def renew(self) -> None:
        """Connect again, with new credentials."""
        self.close()
        _ = self.client

    def close(self) -> None:
        """Close idle connections."""
        if client := vars(self).pop("client", None):
            client._run_api.api_client.rest_client.pool_manager.clear()
            client._run_api.api_client.close()
