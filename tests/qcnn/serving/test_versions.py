"""Decisions about versions and labels, as tables."""

from pathlib import Path

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.serving.errors import RequestError
from qcnn.serving.labels import read_labels
from qcnn.serving.versions import (
    VersionPolicy,
    check_name,
    kept_versions,
    moved_labels,
    parse_policy,
    parse_version,
    resolve,
    wanted_versions,
)
from tests.qcnn.serving.label_files import write_labels


@pytest.mark.parametrize(
    ("available", "policy", "labels", "expected"),
    [
        ([], VersionPolicy(1), {}, []),
        ([1, 2, 10], VersionPolicy(1), {}, [10]),
        ([1, 2, 10], VersionPolicy(2), {}, [2, 10]),
        ([1, 2], VersionPolicy(5), {}, [1, 2]),
        ([3, 1, 2], VersionPolicy(0), {}, [1, 2, 3]),
        ([1, 2, 3], VersionPolicy(1), {"stable": 1}, [1, 3]),
        ([1, 2, 3], VersionPolicy(1), {"stable": 7}, [3]),
        ([1, 2, 3], VersionPolicy(only=frozenset({1, 2})), {"canary": 3}, [1, 2]),
        ([1, 2], VersionPolicy(only=frozenset({3})), {}, []),
        ([1, 2, 3], VersionPolicy(only=frozenset({2})), {"stable": 1}, [2]),
        ([1, 3], VersionPolicy(only=frozenset({2})), {}, []),
        ([1, 2, 3], VersionPolicy(label="stable"), {"stable": 1, "canary": 2}, [1]),
        ([1, 2, 3], VersionPolicy(label="stable"), {"canary": 2}, []),
        ([1, 2, 3], VersionPolicy(label="stable"), {"stable": 7}, []),
    ],
)
def test_wanted_versions(
    available: list[int], policy: VersionPolicy, labels: dict[str, int], expected: list[int]
) -> None:
    assert wanted_versions(available, policy, labels) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (VersionPolicy(), {"a": 1, "b": 1, "c": 2}),
        (VersionPolicy(only=frozenset({1})), {"a": 1, "b": 1}),
        (VersionPolicy(only=frozenset({3})), {}),
        (VersionPolicy(label="c"), {"c": 2}),
        (VersionPolicy(label="d"), {}),
    ],
)
def test_labels_of_policy(policy: VersionPolicy, expected: dict[str, int]) -> None:
    assert policy.labels_of({"a": 1, "b": 1, "c": 2}) == expected


@pytest.mark.parametrize(
    ("current", "requested", "loaded", "expected"),
    [
        ({}, {"a": 1}, [1], {"a": 1}),
        ({}, {"a": 2}, [1], {}),
        ({"a": 1}, {"a": 2}, [1], {"a": 1}),
        ({"a": 1}, {"a": 2}, [1, 2], {"a": 2}),
        ({"a": 1}, {}, [1], {}),
        ({"a": 1}, {"a": 3}, [2], {}),
    ],
)
def test_labels_move_to_loaded_versions_only(
    current: dict[str, int], requested: dict[str, int], loaded: list[int], expected: dict[str, int]
) -> None:
    assert moved_labels(current, requested, loaded) == expected


@pytest.mark.parametrize(
    ("loaded", "wanted", "labels", "expected"),
    [
        ([1, 2], [2], {}, {2}),
        ([1, 2], [2], {"a": 1}, {1, 2}),
        ([1, 2], [], {}, {2}),
        ([], [3], {}, set()),
    ],
)
def test_kept_versions(loaded: list[int], wanted: list[int], labels: dict[str, int], expected: set[int]) -> None:
    assert kept_versions(loaded, wanted, labels) == expected


@pytest.mark.parametrize(
    ("version", "label", "expected"),
    [(None, None, 10), ("2", None, 2), (None, "stable", 2), ("10", None, 10)],
)
def test_resolve_returns_version(version: str | None, label: str | None, expected: int) -> None:
    assert resolve("m", [2, 10], {"stable": 2}, version, label) == expected


@pytest.mark.parametrize(
    ("loaded", "version", "label", "line"),
    [
        ([], None, None, "model: m must have a loaded version. Given: none"),
        ([2], "3", None, "version: model m must have it: 2. Given: '3'"),
        ([2], "02", None, "version: model m must have it: 2. Given: '02'"),
        ([2], "9" * 400, None, "version: model m must have it: 2. Given: "),
        ([2], None, "x", "label: model m must have it: stable. Given: 'x'"),
    ],
)
def test_resolve_missing_version_is_not_found(
    loaded: list[int], version: str | None, label: str | None, line: str
) -> None:
    with pytest.raises(RequestError) as error:
        resolve("m", loaded, {"stable": 2}, version, label)
    assert str(error.value).startswith(line)
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("latest:1", VersionPolicy(1)),
        ("latest:12", VersionPolicy(12)),
        ("all", VersionPolicy(0)),
        ("2", VersionPolicy(only=frozenset({2}))),
        ("3,1", VersionPolicy(only=frozenset({1, 3}))),
    ],
)
def test_parse_policy(text: str, policy: VersionPolicy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize("text", ["", "latest", "latest:0", "latest:-1", "ALL", "0", "1,", "1, 2", "1-2"])
def test_parse_policy_rejects_other_texts(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^versions: must be latest:N, all, or versions as 1,3\. Given: "):
        parse_policy(text)


def test_versions_are_positive_integers_without_leading_zeros() -> None:
    names = ("1", "20", "0", "01", "-1", "1.0", "one", "1e3", "²", "9" * 40)
    assert [parse_version(name) for name in names] == [1, 20, *[None] * 8]


@pytest.mark.parametrize("name", ["", "a/b", "a b", "../x", "é", "-a", "a" * 101])
def test_check_name_rejects_other_characters(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^name: must be at most 100 letters"):
        check_name(name)


def test_labels_are_read_as_written(tmp_path: Path) -> None:
    assert read_labels(tmp_path) == {}
    write_labels(tmp_path, {"stable": 1, "canary": 2})
    assert read_labels(tmp_path) == {"stable": 1, "canary": 2}


@pytest.mark.parametrize("text", ["", "[]", '{"a": "1"}', '{"a": 0}', '{"a": true}', '{"a b": 1}', "[" * 100_000])
def test_damaged_labels_raise(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"^labels: labels\.json is damaged \([^\n]+\)\. Given: "):
        read_labels(tmp_path)
