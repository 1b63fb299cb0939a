"""Buckets of a server that stands in for Cloud Storage, at STORAGE_EMULATOR_HOST."""

import contextlib
import secrets
import urllib.parse
from collections.abc import Iterator

import requests

_SECONDS = 60


@contextlib.contextmanager
def new_bucket(server: str) -> Iterator[str]:
    """Yield the name of a new bucket; in the end it is deleted with all that is in it."""
    buckets, name = f"{server}/storage/v1/b", f"qcnn-{secrets.token_hex(6)}"
    requests.post(f"{buckets}?project=test", json={"name": name}, timeout=_SECONDS).raise_for_status()
    try:
        yield name
    finally:
        while found := _objects(f"{buckets}/{name}/o"):
            for key in found:
                address = f"{buckets}/{name}/o/{urllib.parse.quote(key, safe='')}"
                requests.delete(address, timeout=_SECONDS).raise_for_status()
        requests.delete(f"{buckets}/{name}", timeout=_SECONDS).raise_for_status()


def _objects(address: str) -> list[str]:
    answer = requests.get(address, timeout=_SECONDS)
    answer.raise_for_status()
    return [item["name"] for item in answer.json().get("items", ())]
