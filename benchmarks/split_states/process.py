"""Process of the benchmark: measure exchanges and training steps, and print one line of JSON for each result.

A client uses the devices of servers. Workers run the same function and use collective operations.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from benchmarks.split_states.counts import SAMPLES, network
from benchmarks.split_states.evolution import SplitState
from benchmarks.split_states.exchanges import SocketExchange, collective_seconds, copy_rate, remote_seconds
from benchmarks.split_states.shares import CollectiveShares, RemoteShares, Shares
from qcnn.experiment_io import from_mapping
from qcnn.operating_system import end_with_parent
from qcnn.simulators.interface import ProductStateBatch
from qcnn.simulators.statevector import StatevectorSimulator
from qcnn.startup import buffer_stderr, start_compiler
from qcnn.trainer.distribution.joining import restrict_to_localhost
from qcnn.trainer.distribution.roles import ClusterConfig
from qcnn.trainer.distribution.strategies import create_strategy

# Seconds after which an operation that waits for another process fails.
TIMEOUT = 120.0
_STEPS = 5


def main() -> None:
    """Run one process."""
    parser = argparse.ArgumentParser(description="Process of benchmarks.split_states.")
    parser.add_argument("role", choices=("alone", "client", "server", "worker"))
    parser.add_argument("parent", type=int)
    parser.add_argument("index", type=int)
    parser.add_argument("addresses", type=json.loads)
    parser.add_argument("ports", type=json.loads)
    parser.add_argument("exchanged", type=json.loads)
    parser.add_argument("trained", type=json.loads)
    arguments = parser.parse_args()
    end_with_parent(arguments.parent)
    _RUN[arguments.role](arguments)


def _serve(arguments: argparse.Namespace) -> None:
    """Serve until this process is killed."""
    cluster = ClusterConfig({"worker": tuple(arguments.addresses)}, "worker", arguments.index)
    start_compiler()
    with buffer_stderr():
        server = tf.distribute.Server(tf.train.ClusterSpec(cluster.addresses), "worker", arguments.index)
    restrict_to_localhost(cluster)
    server.join()


def _run_client(arguments: argparse.Namespace) -> None:
    with buffer_stderr():
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({"worker": arguments.addresses}), job_name="client"
        )
    count = len(arguments.addresses)
    shares = RemoteShares([f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(count)])
    for qubits in arguments.exchanged:
        _print({"qubits": qubits, "exchange": remote_seconds(shares, qubits)})
    for qubits in arguments.trained:
        _print({"qubits": qubits, "step": _measure_split(qubits, shares)})


def _run_worker(arguments: argparse.Namespace) -> None:
    count = len(arguments.addresses)
    fields = {"workers": count, "options": {"communication": "ring", "communication_timeout": int(TIMEOUT)}}
    create_strategy(
        from_mapping(fields), ClusterConfig({"worker": tuple(arguments.addresses)}, "worker", arguments.index)
    )
    start_compiler()
    shares = CollectiveShares(arguments.index, count, TIMEOUT)
    sockets = SocketExchange(arguments.index, arguments.ports, TIMEOUT)
    for qubits in arguments.exchanged:
        _print({"qubits": qubits, "exchange": {**collective_seconds(shares, qubits), **sockets.seconds(qubits)}})
    for qubits in arguments.trained:
        _print({"qubits": qubits, "step": _measure_split(qubits, shares)})


def _run_alone(arguments: argparse.Namespace) -> None:
    _print({"copy": copy_rate()})
    for qubits in arguments.trained:
        _print({"qubits": qubits, "step": _measure_reference(qubits)})


def _print(result: Mapping[str, Any]) -> None:
    print(json.dumps(result), flush=True)


_RUN = {"alone": _run_alone, "client": _run_client, "server": _serve, "worker": _run_worker}


def _measure_split(qubits: int, shares: Shares) -> dict[str, Any]:
    split = SplitState(network(qubits), shares, tf.float64)
    return _measure(tf.function(tf.autograph.experimental.do_not_convert(split.loss_and_gradient)), qubits)


def _measure_reference(qubits: int) -> dict[str, Any]:
    """Measure simulator statevector in this process."""
    simulator = StatevectorSimulator(network(qubits), SAMPLES, tf.float64)

    def step(parameters: tf.Tensor, features: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            readouts = simulator.expectations(parameters, ProductStateBatch(features))
            loss = tf.reduce_mean(tf.square(readouts - labels))
        return loss, tape.gradient(loss, parameters)

    return _measure(tf.function(tf.autograph.experimental.do_not_convert(step), jit_compile=True), qubits)


def _measure(step: Any, qubits: int) -> dict[str, Any]:
    """Return loss, gradient, median seconds and bytes on the loopback interface of a training step.

    The bytes are correct only if no other process uses this interface.
    """
    random, of = np.random.default_rng(qubits), network(qubits)
    parameters, features, labels = (
        tf.constant(random.uniform(-1, 1, shape))
        for shape in (of.parameters, (SAMPLES, qubits), (SAMPLES, len(of.readouts)))
    )
    loss, gradient = (each.numpy() for each in step(parameters, features, labels))
    before, seconds = _loopback_bytes(), []
    for _ in range(_STEPS):
        start = time.perf_counter()
        step(parameters, features, labels)[1].numpy()
        seconds.append(time.perf_counter() - start)
    return {
        "loss": float(loss),
        "gradient": gradient.tolist(),
        "seconds": statistics.median(seconds),
        "bytes": (_loopback_bytes() - before) / _STEPS,
    }


def _loopback_bytes() -> int:
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


if __name__ == "__main__":
    main()
