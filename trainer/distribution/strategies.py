"""Configuration of the devices of a process, and creation of its TensorFlow distribution strategy."""

import logging
import os
from collections.abc import Callable, Mapping

import tensorflow as tf

from qcnn.errors import ConfigError, single_line
from qcnn.experiment import requirements
from qcnn.experiment.config import ExperimentConfig
from qcnn.process.operating_system import cores, cores_of_quota
from qcnn.process.standard_streams import buffer_stderr
from qcnn.provenance import IMAGE_VARIABLE
from qcnn.trainer.distribution.joining import joining, restrict_to_localhost
from qcnn.trainer.distribution.roles import ClusterConfig

_MIB = 1024

logger = logging.getLogger("qcnn")


def check_gpus(requested: int, fields: Mapping[str, str]) -> None:
    """Raise ConfigError if a GPU is not visible that the job requested or experiment fields require."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if requested and not gpus:
        image = os.environ.get(IMAGE_VARIABLE)
        raise ConfigError(
            "pod.gpus: TensorFlow sees no GPU in this process, although its job requested GPUs; the image must have "
            "TensorFlow's CUDA libraries, as the image of the Dockerfile with EXTRA=gpu has, and the node a driver. "
            f"Given: gpus {requested}{f', image {image}' if image else ''}"
        )
    requirements.check_gpus(fields, gpus)


def set_up(config: ExperimentConfig) -> None:
    """Configure devices and threads of this process for an experiment, and log the devices.

    TensorFlow uses the first configuration for all experiments of a process. Without GPUs, `devices` are logical
    devices of the processor.

    Raises:
        ConfigError: If the devices do not exist.
    """
    options = config.options
    check_gpus(0, config.gpu_fields)
    gpus = _visible_gpus(options.visible_gpus)
    if gpus and options.devices > len(gpus):
        raise ConfigError(f"devices: must be at most {len(gpus)}, the visible GPUs. Given: {options.devices}")
    try:
        # TensorFlow's default, for 0, is the number of cores without the CPU quota of a container.
        default = cores_of_quota()
        tf.config.threading.set_inter_op_parallelism_threads(options.inter_threads or default)
        tf.config.threading.set_intra_op_parallelism_threads(options.intra_threads or default)
        if gpus and options.visible_gpus:
            tf.config.set_visible_devices(gpus, "GPU")
        for gpu in gpus:
            _limit(gpu, options.gpu_memory)
        if not gpus and options.devices > 1:
            (processor,) = tf.config.list_physical_devices("CPU")
            parts = [tf.config.LogicalDeviceConfiguration()] * options.devices
            tf.config.set_logical_device_configuration(processor, parts)
    except RuntimeError:
        # TensorFlow is already initialized. Its devices must be sufficient.
        count = len(device_names(config)) if requirements.STRATEGIES[config.strategy].devices else 1
        if count < options.devices:
            raise ConfigError(
                f"devices: must be at most {count}, with which TensorFlow was initialized in this process. "
                f"Given: {options.devices}"
            ) from None
    tf.debugging.set_log_device_placement(options.placement_log)
    logger.info("devices: %s", describe_devices())


def describe_devices() -> str:
    """Return the devices that TensorFlow uses in this process as text, such as 1 GPU (NVIDIA L4), 4 CPU cores."""
    gpus = tf.config.get_visible_devices("GPU")
    models = [tf.config.experimental.get_device_details(gpu).get("device_name", "unknown model") for gpu in gpus]
    parts = [_count(len(gpus), "GPU") + f" ({', '.join(dict.fromkeys(models))})"] if gpus else []
    return ", ".join([*parts, _count(cores(), "CPU core")])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def device_names(config: ExperimentConfig) -> list[str]:
    """Return the names of the training devices of a process."""
    logical = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    count = config.options.devices or (len(logical) if logical[0].device_type == "GPU" else 1)
    return [device.name for device in logical[:count]]


def _visible_gpus(numbers: str) -> list[tf.config.PhysicalDevice]:
    """Return the GPUs with the given indices, or all. `check_gpus` checks the indices."""
    gpus = tf.config.list_physical_devices("GPU")
    return [gpus[int(number)] for number in numbers.split(",")] if numbers else list(gpus)


def _limit(gpu: tf.config.PhysicalDevice, memory: str) -> None:
    if memory == "growth":
        tf.config.experimental.set_memory_growth(gpu, True)
    elif memory:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=float(memory) * _MIB)
        tf.config.set_logical_device_configuration(gpu, [limit])


Implementation = tf.distribute.experimental.CollectiveCommunication


def create_strategy(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    """Create the strategy of an experiment for this process.

    With several processes this starts TensorFlow's server and waits for the other processes (see `joining`). No device
    may have been used before.

    Raises:
        ConfigError: If the machine lacks devices for the strategy.
    """
    check_gpus(0, config.gpu_fields)
    return STRATEGIES[config.strategy](config, cluster)


def _multi_worker(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    options = config.options
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=Implementation(options.communication.upper()),
        timeout_seconds=options.communication_timeout or None,
    )
    # TensorFlow's server prints messages at every log level.
    with buffer_stderr(), joining(cluster, options.heartbeat_timeout_seconds):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(_resolver(cluster), communication)
    restrict_to_localhost(cluster)
    return strategy


def _create_mirrored(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    devices, reduction = device_names(config), config.options.reduction
    on_gpus = "GPU" in devices[0]
    if reduction == "hierarchical_copy" and len(devices) % 2:
        raise ConfigError(
            f"reduction: hierarchical_copy requires an even number of devices. Given: {len(devices)} devices"
        )
    # TensorFlow's default on a processor, collectives, confuses the iterations of a loop.
    chosen = {"auto": "nccl" if on_gpus else "one_device"}.get(reduction, reduction)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=_REDUCTIONS[chosen]())


def _central_storage(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    return tf.distribute.experimental.CentralStorageStrategy(device_names(config), parameter_device="/cpu:0")


def parameter_servers(
    cluster: ClusterConfig | None, heartbeat_timeout_seconds: float
) -> tf.distribute.ParameterServerStrategy:
    """Create the strategy of a chief, and wait for workers and parameter servers (see `joining`)."""
    with buffer_stderr(), joining(cluster, heartbeat_timeout_seconds):
        strategy = tf.distribute.ParameterServerStrategy(_resolver(cluster))
    restrict_to_localhost(cluster)
    return strategy


def _tpu(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except Exception as error:  # Without a TPU, the resolver raises errors of various types.
        raise ConfigError(f"strategy: no TPU was found ({single_line(error)}). Given: {config.strategy}") from None
    return tf.distribute.TPUStrategy(resolver)


def _none(_: ExperimentConfig, __: ClusterConfig | None) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


_REDUCTIONS: dict[str, Callable[[], tf.distribute.CrossDeviceOps]] = {
    "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    "one_device": tf.distribute.ReductionToOneDevice,
    "nccl": tf.distribute.NcclAllReduce,
}
STRATEGIES: dict[str, Callable[[ExperimentConfig, ClusterConfig | None], tf.distribute.Strategy]] = {
    "multi_worker": _multi_worker,
    "mirrored": _create_mirrored,
    "central_storage": _central_storage,
    "parameter_server": lambda config, cluster: parameter_servers(cluster, config.options.heartbeat_timeout_seconds),
    "tpu": _tpu,
    "none": _none,
}


def _resolver(cluster: ClusterConfig | None) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Return a cluster resolver without the evaluator, unlike TensorFlow's resolver of TF_CONFIG."""
    if cluster is None:
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), task_type=cluster.role, task_id=cluster.index, rpc_layer="grpc"
    )
