"""TensorFlow's distribution strategies by the experiment's word for them. A new one is an entry in the table."""

from collections.abc import Callable

import tensorflow as tf

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.distribution.devices import check_gpus, device_names
from qcnn.trainer.distribution.joining import joining
from qcnn.trainer.distribution.loopback import keep_to_machine
from qcnn.trainer.distribution.roles import Cluster
from qcnn.trainer.errors import ConfigError, one_line
from qcnn.trainer.startup import stderr_held_back

Implementation = tf.distribute.experimental.CollectiveCommunication


def create_strategy(config: ExperimentConfig, cluster: Cluster | None) -> tf.distribute.Strategy:
    """Create the strategy of an experiment for this process.

    With several processes this starts TensorFlow's server and waits for the others, so nothing may
    have touched a device before; see `joining`.

    Raises:
        ConfigError: the machine has not what the strategy needs.
    """
    check_gpus(0, config.gpu_words)
    return STRATEGIES[config.strategy](config, cluster)


def _multi_worker(config: ExperimentConfig, cluster: Cluster | None) -> tf.distribute.Strategy:
    options = config.options
    how = tf.distribute.experimental.CommunicationOptions(
        implementation=Implementation(options.communication.upper()),
        timeout_seconds=options.communication_timeout or None,
    )
    # TensorFlow's server prints a greeting whatever the level of its log.
    with stderr_held_back(), joining(cluster, options.hang_seconds):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(_resolver(cluster), how)
    keep_to_machine(cluster)
    return strategy


def _mirrored(config: ExperimentConfig, _: Cluster | None) -> tf.distribute.Strategy:
    devices, reduction = device_names(config), config.options.reduction
    on_gpus = "GPU" in devices[0]
    if reduction == "hierarchical_copy" and len(devices) % 2:
        raise ConfigError(
            f"reduction: hierarchical_copy adds up over pairs of devices. Given: {len(devices)} devices here"
        )
    # TensorFlow's own choice on a processor, collectives, mixes up the turns of a loop.
    chosen = {"auto": "nccl" if on_gpus else "one_device"}.get(reduction, reduction)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=_REDUCTIONS[chosen]())


def _central_storage(config: ExperimentConfig, _: Cluster | None) -> tf.distribute.Strategy:
    return tf.distribute.experimental.CentralStorageStrategy(device_names(config), parameter_device="/cpu:0")


def parameter_servers(cluster: Cluster | None, hang_seconds: float) -> tf.distribute.ParameterServerStrategy:
    """Return the strategy of a chief that has workers and parameter servers, once they are there; see `joining`."""
    with stderr_held_back(), joining(cluster, hang_seconds):
        strategy = tf.distribute.ParameterServerStrategy(_resolver(cluster))
    keep_to_machine(cluster)
    return strategy


def _tpu(config: ExperimentConfig, _: Cluster | None) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except Exception as error:  # A resolver that finds none raises whatever it was doing.
        raise ConfigError(
            f"strategy: no TPU is found from here ({one_line(error)}). Given: {config.strategy}"
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def _none(_: ExperimentConfig, __: Cluster | None) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


_REDUCTIONS: dict[str, Callable[[], tf.distribute.CrossDeviceOps]] = {
    "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    "one_device": tf.distribute.ReductionToOneDevice,
    "nccl": tf.distribute.NcclAllReduce,
}
STRATEGIES: dict[str, Callable[[ExperimentConfig, Cluster | None], tf.distribute.Strategy]] = {
    "multi_worker": _multi_worker,
    "mirrored": _mirrored,
    "central_storage": _central_storage,
    "parameter_server": lambda config, cluster: parameter_servers(cluster, config.options.hang_seconds),
    "tpu": _tpu,
    "none": _none,
}


def _resolver(cluster: Cluster | None) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Describe the cluster ourselves: TensorFlow's own reading of TF_CONFIG counts an evaluator in."""
    if cluster is None:
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), task_type=cluster.role, task_id=cluster.index, rpc_layer="grpc"
    )
