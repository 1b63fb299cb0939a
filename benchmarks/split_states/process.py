"""Process of the benchmark: measure exchanges and training steps, and print one line of JSON for each result.

A client uses the devices of servers. Workers run the same function and use collective operations.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
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
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.startup import buffer_stderr, start_compiler
from qcnn.trainer.distribution.joining import restrict_to_localhost
from qcnn.trainer.distribution.roles import ClusterConfig
from qcnn.trainer.distribution.strategies import create_strategy

# Seconds after which an operation that waits for another process fails.
TIMEOUT = 120.0
_STEPS = 7

Step = Callable[..., tuple[tf.Tensor, tf.Tensor]]


def main() -> None:
    """Run one process."""
    parser = argparse.ArgumentParser(description="Process of benchmarks.split_states.")
    parser.add_argument("role", choices=("client", "server", "worker"))
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
    _print({"copy": copy_rate()})
    for qubits in arguments.exchanged:
        _print({"qubits": qubits, "exchange": remote_seconds(shares, qubits)})
    for qubits in arguments.trained:
        _print({"qubits": qubits, "step": _measure(qubits, shares, lambda: None, measures_reference=True)})


def _run_worker(arguments: argparse.Namespace) -> None:
    index, count = arguments.index, len(arguments.addresses)
    fields = {"workers": count, "options": {"communication": "ring", "communication_timeout": int(TIMEOUT)}}
    create_strategy(from_mapping(fields), ClusterConfig({"worker": tuple(arguments.addresses)}, "worker", index))
    start_compiler()
    shares = CollectiveShares(index, count, TIMEOUT)
    sockets = SocketExchange(index, arguments.ports, TIMEOUT)
    meet = tf.function(lambda: shares.total([tf.zeros([])]))
    for qubits in arguments.exchanged:
        seconds = {**collective_seconds(shares, qubits), **sockets.seconds(qubits)}
        _print({"qubits": qubits, "exchange": seconds})
    for qubits in arguments.trained:
        # The output of the last process is read.
        step = _measure(qubits, shares, lambda: meet().numpy(), measures_reference=index == count - 1)
        _print({"qubits": qubits, "step": step})


def _print(result: Mapping[str, Any]) -> None:
    print(json.dumps(result), flush=True)


_RUN = {"client": _run_client, "server": _serve, "worker": _run_worker}


def _measure(qubits: int, shares: Shares, meet: Callable[[], object], *, measures_reference: bool) -> dict[str, float]:
    """Measure a training step on a split state.

    Args:
        qubits: Number of qubits.
        shares: Shares of the state.
        meet: Function that waits for the other processes that run this function.
        measures_reference: Whether this process alternates the steps with those of simulator `statevector`, so that
            other load affects both.

    Returns:
        Median seconds of a step, and bytes on the loopback interface, which are correct only if no other process uses
        it. With a reference also its seconds, and the maximum difference of loss and gradient.
    """
    circuit, random = network(qubits), np.random.default_rng(qubits)
    shapes = circuit.parameters, (SAMPLES, qubits), (SAMPLES, len(circuit.readouts))
    inputs = [tf.constant(random.uniform(-1, 1, shape)) for shape in shapes]
    split = SplitState(circuit, shares, tf.float64)
    step = tf.function(tf.autograph.experimental.do_not_convert(split.loss_and_gradient))
    reference = _reference(circuit) if measures_reference else None
    values = _values(step, inputs)
    expected = _values(reference, inputs) if reference else values
    seconds, reference_seconds, sent = [], [0.0], []
    for _ in range(_STEPS):
        if reference:
            reference_seconds.append(_seconds(reference, inputs))
        meet()
        before = _loopback_bytes()
        seconds.append(_seconds(step, inputs))
        sent.append(_loopback_bytes() - before)
    return {
        "difference": float(np.abs(values - expected).max()),
        "seconds": statistics.median(seconds),
        "reference_seconds": statistics.median(reference_seconds[1:] or reference_seconds),
        "bytes": statistics.median(sent),
    }


def _reference(circuit: CircuitIR) -> Step:
    """Return the training step of simulator `statevector` in this process."""
    simulator = StatevectorSimulator(circuit, SAMPLES, tf.float64)

    def step(parameters: tf.Tensor, features: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            readouts = simulator.expectations(parameters, ProductStateBatch(features))
            loss = tf.reduce_mean(tf.square(readouts - labels))
        return loss, tape.gradient(loss, parameters)

    compiled: Step = tf.function(tf.autograph.experimental.do_not_convert(step), jit_compile=True)
    return compiled


def _values(step: Step, inputs: Sequence[tf.Tensor]) -> npt.NDArray[np.float64]:
    """Return loss and gradient as one vector."""
    loss, gradient = step(*inputs)
    return np.concatenate([[loss.numpy()], gradient.numpy()])


def _seconds(step: Step, inputs: Sequence[tf.Tensor]) -> float:
    start = time.perf_counter()
    _values(step, inputs)
    return time.perf_counter() - start


def _loopback_bytes() -> int:
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


if __name__ == "__main__":
    main()
