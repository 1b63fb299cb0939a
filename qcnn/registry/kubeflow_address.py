"""Address of a Kubeflow Model Registry, and of the folder of its files."""

import dataclasses
import urllib.parse

from qcnn.errors import ConfigError, format_value, has_credentials, redact_credentials
from qcnn.registry.defaults import FOLDER
from qcnn.storage.store import parse_bucket_uri

# First part of an address.
PREFIX = "kubeflow:"
# Environment variable of Kubeflow's client with the path of a file that has a token.
TOKEN_VARIABLE = "KF_PIPELINES_SA_TOKEN_PATH"


@dataclasses.dataclass(frozen=True)
class KubeflowAddress:
    """Address of a Kubeflow Model Registry, which stores no files.

    Attributes:
        url: URL of the server.
        files: Path or URI of the folder for the files of new versions.
    """

    url: str
    files: str = FOLDER


def parse_kubeflow(address: str) -> KubeflowAddress:
    """Parse the address of a Kubeflow Model Registry.

    >>> parse_kubeflow("kubeflow:https://registry.lab#gs://bucket/models")
    KubeflowAddress(url='https://registry.lab', files='gs://bucket/models')

    Raises:
        ConfigError: If it, or the folder, is invalid or has credentials.
    """
    text, _, files = address.removeprefix(PREFIX).partition("#")
    if has_credentials(text):
        raise ConfigError(
            f"registry: must have no credentials; set {TOKEN_VARIABLE} to the path of a file with a token. Given: a "
            "kubeflow URL with credentials"
        )
    try:
        found = urllib.parse.urlsplit(text)
        is_valid = found.scheme in ("http", "https") and bool(found.hostname) and not found.query
        is_valid = is_valid and (found.port is None or found.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid or not text.isascii() or not text.isprintable() or " " in text:
        shown = redact_credentials(address).partition("?")[0]
        raise ConfigError(
            "registry: must be kubeflow:http://HOST or kubeflow:https://HOST, and #FOLDER for the files. "
            f"Given: {format_value(shown)}"
        )
    parse_bucket_uri(files)
    return KubeflowAddress(text.rstrip("/"), files or FOLDER)
