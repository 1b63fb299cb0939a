"""What no launcher would see for hours: the API server itself makes it."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.api import LEASES, Api
from qcnn.jobs.tfjob.manifest import TFJOBS
from tests.cluster.launchers import Launchers, job


@pytest.fixture
def api(namespace: str) -> Iterator[Api]:
    with contextlib.closing(Api(namespace)) as api:
        yield api


LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


def _lease(name: str) -> dict[str, Any]:
    return {**LEASE, "metadata": {"name": name, "labels": {"test": name}}}


def test_a_watch_that_the_server_has_forgotten_begins_with_a_new_list(
    api: Api, launchers: Launchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server remembers nothing of a kind from before it knew the kind, however young it is.
    name = launchers.create(job("", node_selector={"no": "node"}))["metadata"]["name"]
    as_it_is = api._json
    listings = []

    def outdated(*arguments: Any, **options: Any) -> dict[str, Any]:
        listing = as_it_is(*arguments, **options)
        listings.append(listing)
        if len(listings) == 1:
            listing["metadata"]["resourceVersion"] = "1"
        return listing

    monkeypatch.setattr(api, "_json", outdated)
    with contextlib.closing(api.watch(TFJOBS, fieldSelector=f"metadata.name={name}")) as watch:
        assert [list(next(watch)) for _ in range(2)] == [[name], [name]]
    assert len(listings) == 2


def test_what_is_deleted_is_seen_once_more_and_then_gone(api: Api) -> None:
    api.apply(LEASES, _lease("deleted"))
    with contextlib.closing(api.watch(LEASES, labelSelector="test=deleted")) as watch:
        assert list(next(watch)) == ["deleted"]
        assert api.delete(LEASES, "deleted")
        assert [list(next(watch)) for _ in range(2)] == [["deleted"], []]
    assert not api.delete(LEASES, "deleted")


def test_only_the_object_that_is_meant_is_deleted(api: Api) -> None:
    api.apply(LEASES, _lease("another"))
    assert not api.delete(LEASES, "another", uid="3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce")
    assert api.get(LEASES, "another")


def test_what_the_server_refuses_is_one_line(api: Api) -> None:
    with pytest.raises(ConfigError, match=r"^create leases in namespace .*: the API server refuses\. Given: .*$"):
        api.create(LEASES, {**LEASE, "metadata": {"name": "Not A Name"}})
    api.namespace = "no-such-namespace"
    with pytest.raises(ConfigError, match=r"^namespace: does not exist. Given: no-such-namespace$"):
        api.create(LEASES, _lease("nowhere"))


def test_a_cluster_without_the_operator_is_one_line(api: Api) -> None:
    unknown = dataclasses.replace(TFJOBS, plural="jobs-of-no-operator")
    question = r"is the training operator installed\? Given: "
    with pytest.raises(ConfigError, match=f"{question}create jobs-of-no-operator in namespace "):
        api.create(unknown, {})
    with pytest.raises(ConfigError, match=f"{question}list jobs-of-no-operator in namespace "):
        api.find(unknown)
