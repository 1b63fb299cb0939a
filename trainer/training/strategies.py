"""TensorFlow's distribution strategies by the experiment's word for them. A new one is an entry in the table."""

from collections.abc import Callable

import tensorflow as tf

from trainer.startup import stderr_held_back
from trainer.training.roles import Cluster


def create_strategy(name: str, cluster: Cluster | None) -> tf.distribute.Strategy:
    """Create the strategy of that name for this process.

    With several processes this starts TensorFlow's server and waits for the others, so nothing may
    have touched a device before.
    """
    return STRATEGIES[name](cluster)


def _multi_worker(cluster: Cluster | None) -> tf.distribute.Strategy:
    # TensorFlow's server prints a greeting whatever the level of its log.
    with stderr_held_back():
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=_resolver(cluster))


def _mirrored(_: Cluster | None) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy()


def _none(_: Cluster | None) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


STRATEGIES: dict[str, Callable[[Cluster | None], tf.distribute.Strategy]] = {
    "multi_worker": _multi_worker,
    "mirrored": _mirrored,
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
