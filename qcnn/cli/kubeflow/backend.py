"""The pipelines backend: its address and the credentials."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from qcnn.cli.kubeflow.refusals import check_is_api, explained
from qcnn.cli.library_output import quiet
from qcnn.jobs.references import check_namespace

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

# The namespace of a backend with one user; Kubeflow's client takes any other for a user's own.
SINGLE_USER = "kubeflow"


@dataclasses.dataclass(frozen=True)
class Backend:
    """Address and credentials of a pipelines backend; what is None is left to Kubeflow's client.

    Raises:
        ConfigError: the namespace is none that Kubernetes takes.
    """

    host: str | None = None
    namespace: str | None = None
    ui_host: str | None = None
    token: str | None = dataclasses.field(default=None, repr=False)
    cookies: str | None = dataclasses.field(default=None, repr=False)
    iap_client_id: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: str | None = dataclasses.field(default=None, repr=False)
    ca_cert: str | None = None

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


def connect(backend: Backend) -> kfp.Client:
    """Return Kubeflow's client of a backend that has answered.

    Raises:
        BackendError: nothing answers there, something else does, or the credentials are refused.
    """
    with quiet():
        import kfp

        class Client(kfp.Client):
            def get_kfp_healthz(self, sleep_duration: int = 0) -> kfp_server_api.V2beta1GetHealthzResponse:
                """Ask once: Kubeflow's own goes on for 25 seconds, with a traceback every five."""
                answer = self._healthz_api.healthz_service_get_healthz(_preload_content=False)
                check_is_api(answer.data, backend.address)
                return self._healthz_api.api_client.deserialize(answer, "V2beta1GetHealthzResponse")

        with explained(backend.address):
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
