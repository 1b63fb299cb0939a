"""The client of a pipelines backend, and what its answers mean to a user: one line each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import urllib3

from qcnn.errors import single_line
from qcnn.jobs.references import check_namespace
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
    """Turn whatever asking the backend at `address` raises into an error of one line.

    Raises:
        BackendError: it refuses, or does not answer.
    """
    import google.auth.exceptions
    import kfp_server_api

    try:
        yield
    except kfp_server_api.ApiException as error:
        raise _refused(error, address) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(f"credentials: Google gives none ({single_line(error)}). Given: {address}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise UnavailableError(f"host: does not answer ({_cause(error)}). Given: {address}") from None


def check_is_api(answer: bytes, address: str) -> None:
    """Refuse an answer that is not the pipelines API's, which may well be 200 OK.

    Raises:
        BackendError: it is a web page, or no JSON.
    """
    if not _is_json(answer):
        raise BackendError(_not_the_api(answer, address))


def _refused(error: kfp_server_api.ApiException, address: str) -> BackendError:
    body = error.body if isinstance(error.body, bytes) else (error.body or "").encode()
    reason = _reason(body) or single_line(error.reason or "")
    match error.status:
        case 401:
            return CredentialsError(f"credentials: not accepted, {_LOGIN}. Given: {address}")
        case 403:
            return BackendError(f"permission: refused; is the namespace yours? ({reason}). Given: {address}")
        case 400 | 404 if _is_json(body):
            return BackendError(f"the backend at {address} refuses. Given: {reason}")
        case status if status < 500:
            return BackendError(_not_the_api(body, address))
    return UnavailableError(f"host: the backend fails ({error.status}, {reason}). Given: {address}")


def _not_the_api(answer: bytes, address: str) -> str:
    what = f"a web page; if it is a login, {_LOGIN}" if _WEB_PAGE.match(answer) else "something else"
    return f"host: not the pipelines API answers there, but {what}. Given: {address}"


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _reason(body: bytes) -> str:
    """Return the message of an error of the API."""
    try:
        content = json.loads(body)
    except ValueError:
        return "" if _WEB_PAGE.match(body) else single_line(body.decode(errors="replace"))
    return single_line(content.get("message") or content.get("error") or content) if content else ""


def _cause(error: BaseException) -> str:
    """Return what broke a connection, without the libraries' names for it."""
    while isinstance(reason := getattr(error, "reason", None), BaseException):
        error = reason
    text = single_line(error)
    found = _CAUSE.search(text)
    return found[1].strip() if found else text


# The namespace of a backend with one user; Kubeflow's client takes any other for a user's own.
SINGLE_USER = "kubeflow"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KfpConnection:
    """Address and credentials of a pipelines backend; what is None is left to Kubeflow's client.

    Raises:
        ConfigError: the namespace is none that Kubernetes takes.
    """

    host: str | None = setting(
        "Where the backend is.",
        None,
        shown="by KUBECONFIG; in a pod, its cluster",
        variables=("KF_PIPELINES_ENDPOINT",),
        metavar="URL",
    )
    namespace: str | None = setting(
        "Yours, where the backend has several users.",
        None,
        variables=("KFP_NAMESPACE",),
        metavar="NAME",
        short="n",
    )
    ui_host: str | None = setting(
        "Where its web interface is.", None, shown="host", variables=("KF_PIPELINES_UI_ENDPOINT",), metavar="URL"
    )
    token: str | None = setting(
        "Bearer token.", None, variables=("KFP_EXISTING_TOKEN",), metavar="TEXT", is_secret=True
    )
    cookies: str | None = setting(
        "Cookies of a login, as NAME=VALUE.", None, variables=("KFP_COOKIES",), metavar="TEXT", is_secret=True
    )
    iap_client_id: str | None = setting(
        "Client of Google's Identity-Aware Proxy.",
        None,
        variables=("KF_PIPELINES_IAP_OAUTH2_CLIENT_ID",),
        metavar="ID",
    )
    oauth_client_id: str | None = setting(
        "Client by which a person logs in to that proxy.",
        None,
        variables=("KF_PIPELINES_APP_OAUTH2_CLIENT_ID",),
        metavar="ID",
    )
    oauth_client_secret: str | None = setting(
        "Its secret.",
        None,
        variables=("KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET",),
        metavar="TEXT",
        is_secret=True,
    )
    ca_cert: str | None = setting("Certificates that sign the host's.", None, metavar="FILE")
    metadata_host: str | None = setting(
        "Where the backend's metadata store is.", None, shown="its web interface", metavar="URL"
    )

    def __post_init__(self) -> None:
        if self.namespace is not None:
            check_namespace(self.namespace)

    @property
    def address(self) -> str:
        """Its address, for messages."""
        return self.host or "the cluster of KUBECONFIG"

    def page(self, path: str) -> str:
        """Return the address of a page of the web interface."""
        host = self.ui_host or self.host or ""
        return f"{host if '://' in host else f'https://{host}'}".rstrip("/") + f"/#/{path}"


def connect(backend: KfpConnection) -> kfp.Client:
    """Return Kubeflow's client of a backend that has answered.

    Raises:
        BackendError: nothing answers there, something else does, or the credentials are refused.
    """
    with suppress_output():
        import kfp

        class Client(kfp.Client):
            def get_kfp_healthz(self, sleep_duration: int = 0) -> kfp_server_api.V2beta1GetHealthzResponse:
                """Ask once: Kubeflow's own goes on for 25 seconds, with a traceback every five."""
                answer = self._healthz_api.healthz_service_get_healthz(_preload_content=False)
                check_is_api(answer.data, backend.address)
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
