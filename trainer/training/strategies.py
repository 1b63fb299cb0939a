"""TensorFlow's distribution strategies by their configured name."""

import tensorflow as tf

from trainer.config import ExperimentConfig
from trainer.startup import stderr_held_back
from trainer.training.roles import Cluster


def create_strategy(config: ExperimentConfig, cluster: Cluster | None) -> tf.distribute.Strategy:
    """Create the strategy of an experiment for this process.

    With several processes this starts TensorFlow's server and waits for the others, so nothing may
    have touched a device before.
    """
    if config.strategy == "multi_worker":
        # TensorFlow's server greets, and no level of its log counts for that.
        with stderr_held_back():
            return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=_resolver(cluster))
    if config.strategy == "mirrored":
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _resolver(cluster: Cluster | None) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Describe the cluster ourselves: TensorFlow's own reading of TF_CONFIG counts an evaluator in."""
    if cluster is None:
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), task_type=cluster.role, task_id=cluster.index, rpc_layer="grpc"
    )
