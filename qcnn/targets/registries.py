"""Lookup of an image in its registry (Open Container Initiative, "Distribution Specification")."""

import json
import re
from collections.abc import Mapping

import urllib3

from qcnn.errors import ConfigError
from qcnn.targets.checks import UnknownError

# Names without a host belong to Docker Hub (distribution/reference, normalize.go).
_HUB, _HUB_HOST, _HUB_FOLDER = "docker.io", "registry-1.docker.io", "library/"
_KINDS = (
    "oci.image.index.v1",
    "oci.image.manifest.v1",
    *(f"docker.distribution.manifest.{v}" for v in ("list.v2", "v2")),
)
_TYPES = ", ".join(f"application/vnd.{kind}+json" for kind in _KINDS)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 5.0


def find_image(field: str, reference: str) -> str:
    """Return that a registry has an image, which it is asked for without credentials.

    Args:
        field: Name of the setting.
        reference: Valid reference of the image.

    Raises:
        ConfigError: If the registry does not have it.
        UnknownError: If the registry asks for credentials, or does not answer.
    """
    host, path, version = split_reference(reference)
    address = f"{_HUB_HOST if host == _HUB else host}/v2/{path}/manifests/{version}"
    is_local = host.partition(":")[0] in ("localhost", "127.0.0.1")
    headers = {"Accept": _TYPES}
    try:
        with urllib3.PoolManager(timeout=_SECONDS, retries=False) as pool:
            url = f"{'http' if is_local else 'https'}://{address}"
            answer = pool.request("HEAD", url, headers=headers)
            if answer.status == 401 and (token := _anonymous_token(pool, answer.headers)):
                answer = pool.request("HEAD", url, headers={**headers, "Authorization": f"Bearer {token}"})
    except (urllib3.exceptions.HTTPError, ValueError, KeyError):
        raise UnknownError(f"{host} does not answer from here, and no node names {reference}") from None
    if answer.status == 404:
        raise ConfigError(f"{field}: must be in its registry; push it with `make push`. Given: {reference}")
    if answer.status != 200:
        raise UnknownError(
            f"{host} answers with status {answer.status}; for a private image, pods may need pull_secrets"
        )
    return f"{reference} is in {host}"


def split_reference(reference: str) -> tuple[str, str, str]:
    """Return the registry, the path, and the tag or digest of an image.

    >>> split_reference("europe-docker.pkg.dev/p/r/qcnn:1"), split_reference("qcnn")
    (('europe-docker.pkg.dev', 'p/r/qcnn', '1'), ('docker.io', 'library/qcnn', 'latest'))
    """
    name, _, digest = reference.partition("@")
    first, separator, rest = name.partition("/")
    if not (separator and (":" in first or "." in first or first == "localhost")):
        first, rest = _HUB, name if separator else f"{_HUB_FOLDER}{name}"
    path, _, tag = rest.partition(":")
    return first, path, digest or tag or "latest"


def _anonymous_token(pool: urllib3.PoolManager, headers: Mapping[str, str]) -> str:
    """Return the token that a registry gives to everyone, or empty if it gives none."""
    challenge = dict(_CHALLENGE.findall(headers.get("WWW-Authenticate", "")))
    if "realm" not in challenge:
        return ""
    fields = {name: value for name, value in challenge.items() if name in ("service", "scope")}
    answer = pool.request("GET", challenge["realm"], fields=fields)
    content = json.loads(answer.data) if answer.status == 200 else {}
    return str(content.get("token") or content.get("access_token") or "")
