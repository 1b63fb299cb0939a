"""Tracking server of a run: the setting `tracking`, and the environment variable that carries it to processes."""

import dataclasses
import urllib.parse
from collections.abc import Mapping

from qcnn.errors import ConfigError, QcnnError, has_credentials, redact_credentials, single_line

# Variable of MLflow. Processes of a run inherit it, and pods get it from the pod settings.
VARIABLE = "MLFLOW_TRACKING_URI"
# Variable of MLflow, and the value if it is not set: seconds of a request.
REQUEST_VARIABLE, REQUEST_SECONDS = "MLFLOW_HTTP_REQUEST_TIMEOUT", 10
_PREFIX = "mlflow:"
_ALLOWED = "mlflow:URI, such as mlflow:http://127.0.0.1:5000"
_HIDDEN = "***"
# Variables with secrets that MLflow's client sends.
_SECRET_VARIABLES = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "DATABRICKS_TOKEN")


class TrackingError(QcnnError):
    """Error of a tracking server that rejects a request or does not respond."""


@dataclasses.dataclass(frozen=True)
class Destination:
    """Tracking server. Its URI may have secrets.

    Attributes:
        uri: Tracking URI of MLflow.
        secrets: Texts that messages must not contain, in addition to those of the URI.
    """

    uri: str = dataclasses.field(repr=False)
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)

    @property
    def display_name(self) -> str:
        """URI without user name, password, query and fragment."""
        return redact_credentials(self.uri).partition("#")[0].partition("?")[0]

    def redact(self, error: object) -> str:
        """Return the message of an error in one line, without secrets."""
        text = str(error).replace(self.uri, self.display_name)
        found = urllib.parse.urlsplit(self.uri)
        # Libraries unquote them.
        parts = [
            part for each in (found.username, found.password) if each for part in (each, urllib.parse.unquote(each))
        ]
        for secret in (*parts, found.query, found.fragment, *self.secrets):
            if secret:
                text = text.replace(secret, _HIDDEN)
        return single_line(text)


def parse_destination(text: str, field: str = "tracking") -> Destination:
    """Parse the setting `tracking`, or another field that names a server.

    Raises:
        ConfigError: If it does not name a server.

    >>> parse_destination("mlflow:https://name:password@host/path").display_name
    'https://***@host/path'
    """
    uri = text.removeprefix(_PREFIX)
    if uri == text or not uri or uri != uri.strip() or not uri.isprintable():
        raise ConfigError(f"{field}: must be {_ALLOWED}. Given: {text or 'none'}")
    return Destination(uri)


def destination_in(environment: Mapping[str, str]) -> Destination | None:
    """Return the tracking server of an environment, or None if it has none."""
    uri = environment.get(VARIABLE, "").strip()
    return Destination(uri, secrets_in(environment)) if uri else None


def request_seconds(environment: Mapping[str, str]) -> float:
    """Return the longest duration of a request in seconds. MLflow's client accepts whole seconds only."""
    text = environment.get(REQUEST_VARIABLE, "")
    return float(text) if text.isdecimal() and int(text) else REQUEST_SECONDS


def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets of an environment that MLflow's client sends."""
    return tuple(filter(None, map(environment.get, _SECRET_VARIABLES)))


def pod_variables(text: str) -> dict[str, str]:
    """Return the environment of pods that track a run.

    Args:
        text: Setting `tracking`.

    Raises:
        ConfigError: If pods cannot reach the server, or the URI has secrets, which anyone who can view a pod would see.
    """
    uri = parse_destination(text).uri
    found = urllib.parse.urlsplit(uri)
    if found.scheme not in ("http", "https"):
        raise ConfigError(f"tracking: must be mlflow:http://HOST or mlflow:https://HOST for pods. Given: {text}")
    if has_credentials(uri) or found.query:
        raise ConfigError(
            "tracking: must have no credentials for pods; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD by "
            f"`secrets` of the pod settings. Given: mlflow:{Destination(uri).display_name}"
        )
    return {VARIABLE: uri}
