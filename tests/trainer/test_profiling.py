import logging
import socket

import numpy as np
import pytest

from qcnn.errors import ConfigError
from qcnn.model.batches import Shards
from qcnn.model.steps import Measures
from qcnn.trainer.profiling import batch_profile, serve_profiles

_STEPS = 4


def _shards() -> Shards:
    empty = np.zeros((_STEPS, 1, 1))
    return Shards({"angle": empty.astype(np.float32)}, empty, empty, np.ones(_STEPS, np.int64))


@pytest.mark.parametrize(
    ("batches", "cuts"),
    [
        (range(0), [[(0, 4)], [(0, 4)], [(0, 4)]]),
        (range(5, 6), [[(0, 4)], [(0, 1), (1, 2), (2, 4)], [(0, 4)]]),
        (range(3, 10), [[(0, 3), (3, 4)], [(0, 4)], [(0, 2), (2, 4)]]),
        (range(4, 8), [[(0, 4)], [(0, 4)], [(0, 4)]]),
        (range(50, 60), [[(0, 4)], [(0, 4)], [(0, 4)]]),
    ],
)
def test_epochs_are_cut_where_the_range_begins_and_ends_on_every_process(
    batches: range, cuts: list[list[tuple[int, int]]]
) -> None:
    made: list[tuple[int, int]] = []

    def run(shards: Shards, part: range | None = None) -> Measures:
        assert part
        made.append((part.start, part.stop))
        return np.array(part, np.float64)[:, None]

    with batch_profile(batches, None) as profile:
        for epoch, expected in enumerate(cuts):
            made.clear()
            assert profile.run(run, _shards(), epoch * _STEPS)[:, 0].tolist() == [0, 1, 2, 3]
            assert made == expected


def test_a_taken_port_ends_training_only_where_that_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.WARNING, "qcnn"):
        port = taken.getsockname()[1]
        serve_profiles(port)
        assert "training goes on without profiler server: profiler_port: cannot be used" in caplog.text
        with pytest.raises(ConfigError, match=rf"^profiler_port: cannot be used .*Given: {port}$"):
            serve_profiles(port, required=True)
