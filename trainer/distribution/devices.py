"""The devices of a process: set up once, before TensorFlow computes anything."""

import os
from collections.abc import Mapping

import tensorflow as tf

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.distribution.needs import STRATEGIES
from qcnn.trainer.errors import ConfigError
from qcnn.trainer.provenance import IMAGE_VARIABLE

_MIB = 1024


def check_gpus(requested: int, words: Mapping[str, str]) -> None:
    """Check that this process sees a GPU if its job requested any, or if words of its experiment need one.

    Raises:
        ConfigError: it sees none.
    """
    if tf.config.list_physical_devices("GPU"):
        return
    if requested:
        image = os.environ.get(IMAGE_VARIABLE)
        raise ConfigError(
            "pod.gpus: TensorFlow sees no GPU in this process, whose job requested some; the image must have "
            "TensorFlow's CUDA libraries, which that of the Dockerfile has not, and the node a driver. "
            f"Given: gpus {requested}{f', image {image}' if image else ''}"
        )
    for word, value in words.items():
        raise ConfigError(f"{word}: this machine has no GPU. Given: {value}")


def set_up(config: ExperimentConfig) -> None:
    """Give this process the devices and threads that an experiment asks for; the first experiment's stay.

    Where there are no GPUs, `devices` are equal parts of the processor: TensorFlow's logical devices.

    Raises:
        ConfigError: there is no such device.
    """
    options = config.options
    check_gpus(0, config.gpu_words)
    gpus = _visible_gpus(options.visible_gpus)
    if gpus and options.devices > len(gpus):
        raise ConfigError(f"devices: this process sees {len(gpus)} GPUs. Given: {options.devices}")
    try:
        tf.config.threading.set_inter_op_parallelism_threads(options.inter_threads)
        tf.config.threading.set_intra_op_parallelism_threads(options.intra_threads)
        if gpus and options.visible_gpus:
            tf.config.set_visible_devices(gpus, "GPU")
        for gpu in gpus:
            _limit(gpu, options.gpu_memory)
        if not gpus and options.devices > 1:
            (processor,) = tf.config.list_physical_devices("CPU")
            parts = [tf.config.LogicalDeviceConfiguration()] * options.devices
            tf.config.set_logical_device_configuration(processor, parts)
    except RuntimeError:
        # TensorFlow has begun already: what it has then must be what is asked for.
        found = len(device_names(config)) if STRATEGIES[config.strategy].devices else 1
        if found < options.devices:
            raise ConfigError(
                f"devices: this process has computed with {found} already. Given: {options.devices}"
            ) from None
    tf.debugging.set_log_device_placement(bool(options.placement_log))


def device_names(config: ExperimentConfig) -> list[str]:
    """Return the names of the devices that one process trains on."""
    logical = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    most = config.options.devices or (len(logical) if logical[0].device_type == "GPU" else 1)
    return [device.name for device in logical[:most]]


def _visible_gpus(numbers: str) -> list[tf.config.PhysicalDevice]:
    """Return the GPUs that a process is to see."""
    gpus = tf.config.list_physical_devices("GPU")
    if not numbers:
        return list(gpus)
    asked = [int(number) for number in numbers.split(",")]
    if max(asked) >= len(gpus) or len(set(asked)) < len(asked):
        raise ConfigError(
            f"visible_gpus: must be different numbers below {len(gpus)}, the GPUs of this machine. Given: {numbers}"
        )
    return [gpus[number] for number in asked]


def _limit(gpu: tf.config.PhysicalDevice, memory: str) -> None:
    if memory == "growth":
        tf.config.experimental.set_memory_growth(gpu, True)
    elif memory:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=float(memory) * _MIB)
        tf.config.set_logical_device_configuration(gpu, [limit])
