"""Traffic split between model versions."""

import pytest

from qcnn.targets.vertex.endpoints import with_traffic, without_version


@pytest.mark.parametrize(
    ("now", "wanted", "share", "expected"),
    [
        ({}, "1", 10, {"1": 100}),
        ({"1": 100}, "2", 10, {"1": 90, "2": 10}),
        ({"1": 90, "2": 10}, "2", 100, {"1": 0, "2": 100}),
        ({"1": 0, "2": 100}, "3", 10, {"1": 0, "2": 90, "3": 10}),
        ({"1": 90, "2": 10}, "3", 15, {"1": 77, "2": 8, "3": 15}),
        ({"1": 34, "2": 33, "3": 33}, "4", 1, {"1": 33, "2": 33, "3": 33, "4": 1}),
        # The only version with traffic keeps all of it.
        ({"1": 100}, "1", 10, {"1": 100}),
        ({"1": 0}, "1", 10, {"1": 100}),
    ],
)
def test_with_traffic_scales_other_versions(
    now: dict[str, int], wanted: str, share: int, expected: dict[str, int]
) -> None:
    found = with_traffic(now, wanted, share)
    assert found == expected
    assert sum(found.values()) == 100


@pytest.mark.parametrize(
    ("now", "name", "before", "expected"),
    [
        ({"1": 90, "2": 10}, "2", "1", {"1": 100}),
        ({"1": 0, "2": 100}, "2", "1", {"1": 100}),
        ({"1": 60, "2": 30, "3": 10}, "3", "2", {"1": 67, "2": 33}),
    ],
)
def test_without_version_distributes_its_traffic(
    now: dict[str, int], name: str, before: str, expected: dict[str, int]
) -> None:
    assert without_version(now, name, before) == expected
