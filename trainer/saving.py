"""Times at which the chief saves a training run."""

# Maximum fraction of the time of a training run for saving, with automatic `checkpoint_seconds`.
_MAX_FRACTION = 0.05


def is_save_due(seconds_since_save: float, save_seconds: float, checkpoint_seconds: float) -> bool:
    """Return whether the chief saves after an epoch that is not the last.

    Args:
        seconds_since_save: Seconds of training since the last save, or since the start of training.
        save_seconds: Duration of the last save: history, checkpoint, and uploads as far as training waits for them. 0
            before the first save.
        checkpoint_seconds: Field of the experiment.
    """
    minimum = checkpoint_seconds or save_seconds * (1 / _MAX_FRACTION - 1)
    return seconds_since_save >= minimum
