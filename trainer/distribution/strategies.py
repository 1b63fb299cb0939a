"""TensorFlow's strategy of a training, created on the devices of this process, which are set up before."""

import os
from collections.abc import Callable, Mapping

import tensorflow as tf

from qcnn import requirements
from qcnn.errors import ConfigError, single_line
from qcnn.experiment import ExperimentConfig
from qcnn.provenance import IMAGE_VARIABLE
from qcnn.startup import buffer_stderr
from qcnn.trainer.distribution.joining import joining, restrict_to_localhost
from qcnn.trainer.distribution.roles import ClusterConfig

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
    check_gpus(0, config.gpu_fields)
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
        found = len(device_names(config)) if requirements.STRATEGIES[config.strategy].devices else 1
        if found < options.devices:
            raise ConfigError(
                f"devices: this process has computed with {found} already. Given: {options.devices}"
            ) from None
    tf.debugging.set_log_device_placement(options.placement_log)


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


Implementation = tf.distribute.experimental.CollectiveCommunication


def create_strategy(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    """Create the strategy of an experiment for this process.

    With several processes this starts TensorFlow's server and waits for the others, so nothing may
    have touched a device before; see `joining`.

    Raises:
        ConfigError: the machine has not what the strategy needs.
    """
    check_gpus(0, config.gpu_fields)
    return STRATEGIES[config.strategy](config, cluster)


def _multi_worker(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    options = config.options
    how = tf.distribute.experimental.CommunicationOptions(
        implementation=Implementation(options.communication.upper()),
        timeout_seconds=options.communication_timeout or None,
    )
    # TensorFlow's server prints a greeting whatever the level of its log.
    with buffer_stderr(), joining(cluster, options.heartbeat_timeout_seconds):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(_resolver(cluster), how)
    restrict_to_localhost(cluster)
    return strategy


def _mirrored(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    devices, reduction = device_names(config), config.options.reduction
    on_gpus = "GPU" in devices[0]
    if reduction == "hierarchical_copy" and len(devices) % 2:
        raise ConfigError(
            f"reduction: hierarchical_copy adds up over pairs of devices. Given: {len(devices)} devices here"
        )
    # TensorFlow's own choice on a processor, collectives, mixes up the turns of a loop.
    chosen = {"auto": "nccl" if on_gpus else "one_device"}.get(reduction, reduction)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=_REDUCTIONS[chosen]())


def _central_storage(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    return tf.distribute.experimental.CentralStorageStrategy(device_names(config), parameter_device="/cpu:0")


def parameter_servers(
    cluster: ClusterConfig | None, heartbeat_timeout_seconds: float
) -> tf.distribute.ParameterServerStrategy:
    """Return the strategy of a chief that has workers and parameter servers, once they are there; see `joining`."""
    with buffer_stderr(), joining(cluster, heartbeat_timeout_seconds):
        strategy = tf.distribute.ParameterServerStrategy(_resolver(cluster))
    restrict_to_localhost(cluster)
    return strategy


def _tpu(config: ExperimentConfig, _: ClusterConfig | None) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except Exception as error:  # A resolver that finds none raises whatever it was doing.
        raise ConfigError(
            f"strategy: no TPU is found from here ({single_line(error)}). Given: {config.strategy}"
        ) from None
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
    "mirrored": _mirrored,
    "central_storage": _central_storage,
    "parameter_server": lambda config, cluster: parameter_servers(cluster, config.options.heartbeat_timeout_seconds),
    "tpu": _tpu,
    "none": _none,
}


def _resolver(cluster: ClusterConfig | None) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Describe the cluster ourselves: TensorFlow's own reading of TF_CONFIG counts an evaluator in."""
    if cluster is None:
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), task_type=cluster.role, task_id=cluster.index, rpc_layer="grpc"
    )
