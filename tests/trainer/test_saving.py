"""Decision when the chief saves."""

import pytest

from qcnn.trainer.saving import is_save_due


@pytest.mark.parametrize(
    ("seconds_since_save", "save_seconds", "checkpoint_seconds", "is_due"),
    [
        # Automatic. The duration of a save is unknown before the first.
        (0.001, 0.0, 0.0, True),
        (0.19, 0.01, 0.0, True),
        (0.18, 0.01, 0.0, False),
        # Long epochs are all saved.
        (30.0, 0.01, 0.0, True),
        (30.0, 1.5, 0.0, True),
        # Slow storage.
        (30.0, 2.0, 0.0, False),
        (38.0, 2.0, 0.0, True),
        # The field.
        (59.0, 0.0, 60.0, False),
        (60.0, 0.0, 60.0, True),
        (60.0, 100.0, 60.0, True),
        (0.001, 100.0, 1e-9, True),
    ],
)
def test_is_save_due_depends_on_last_save_and_field(
    seconds_since_save: float, save_seconds: float, checkpoint_seconds: float, is_due: bool
) -> None:
    assert is_save_due(seconds_since_save, save_seconds, checkpoint_seconds) is is_due


@pytest.mark.parametrize("save_seconds", [0.001, 0.02, 1.0])
@pytest.mark.parametrize("epoch_seconds", [0.0001, 0.01, 0.5])
def test_automatic_saves_take_a_twentieth_of_the_time(save_seconds: float, epoch_seconds: float) -> None:
    """Simulate a training run. The first save is not limited, because its duration is unknown."""
    since, last, training, saving = 0.0, 0.0, 0.0, 0.0
    for _ in range(20_000):
        since += epoch_seconds
        training += epoch_seconds
        if is_save_due(since, last, 0.0):
            since, last = 0.0, save_seconds
            saving += save_seconds
    assert saving - save_seconds <= 0.05 * (training + saving)
    assert saving >= save_seconds
