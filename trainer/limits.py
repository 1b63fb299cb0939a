"""What an experiment lets a worker's simulator have."""

import dataclasses

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.simulators.interface import Limits


def limits(config: ExperimentConfig) -> Limits:
    """Return what a worker's simulator has to keep to."""
    found = Limits(
        memory=config.options.memory_gib * 2**30,
        batch=config.batch_size,
        real_bytes={"complex64": 4, "complex128": 8}[config.options.precision],
        replicas=config.shares,
    )
    # Sampled readouts are shared by sample: a worker's share is then a step of its own.
    return dataclasses.replace(found, batch=found.share, replicas=1) if config.options.shots else found
