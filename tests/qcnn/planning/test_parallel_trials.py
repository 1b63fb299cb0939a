"""Number of trials that a machine trains at the same time."""

from typing import Any

import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.planning.parallel_trials import trials_at_once

ONE, TWO = {"workers": 1, "strategy": "none"}, {"workers": 2}
GIB = 2.0**30


@pytest.mark.parametrize(
    ("trials", "changes", "expected"),
    [
        ([ONE] * 5, {}, 2),
        ([ONE] * 5, {"maximum": 1}, 1),
        ([ONE] * 5, {"maximum": 8, "cores": 4}, 4),
        ([ONE] * 5, {"maximum": 8, "cores": 8}, 5),
        ([ONE], {}, 1),
        # Each process has a core.
        ([ONE] * 5, {"cores": 1}, 1),
        ([ONE, TWO], {}, 1),
        ([ONE, TWO], {"cores": 4}, 2),
        ([{"workers": 8}] * 2, {}, 1),
        # 1 GiB and the states of each process.
        ([ONE] * 5, {"memory": 1.9 * GIB}, 1),
        ([ONE] * 5, {"memory": 5.9 * GIB, "states": 2 * GIB}, 1),
        ([ONE] * 5, {"memory": 6.1 * GIB, "states": 2 * GIB}, 2),
        ([ONE] * 5, {"memory": 0.1 * GIB}, 1),
        # A process takes all memory of its GPUs.
        ([ONE] * 5, {"gpus": 2}, 1),
    ],
)
def test_number_of_parallel_trials(trials: list[dict[str, Any]], changes: dict[str, Any], expected: int) -> None:
    machine: dict[str, Any] = {"states": 0.0, "maximum": 2, "cores": 2, "memory": 8 * GIB, "gpus": 0, **changes}
    number, line = trials_at_once([from_mapping(fields) for fields in trials], **machine)
    assert number == expected
    assert bool(line) == (expected < min(machine["maximum"], len(trials)))


@pytest.mark.parametrize(
    ("trial", "changes", "reason"),
    [
        (ONE, {}, "each needs a core of 2"),
        (TWO, {}, "each needs 2 cores of 2"),
        (ONE, {"memory": GIB}, "each needs 1 GiB of 1 GiB of memory"),
        (ONE, {"gpus": 1}, "each needs all memory of the GPUs"),
    ],
)
def test_line_names_the_smallest_limit(trial: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    machine: dict[str, Any] = {"states": 0.0, "cores": 2, "memory": 8 * GIB, "gpus": 0, **changes}
    number, line = trials_at_once([from_mapping(trial)] * 3, maximum=3, **machine)
    assert line == f"parallelism: {number} instead of 3 trials at the same time, because {reason}"
