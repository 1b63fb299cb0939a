"""Split states: exchange between TensorFlow processes, and a training step: python -m benchmarks.split_states.

Prints Markdown. A state of n qubits is split into shares by its highest qubits, one share per process. The first table
compares methods to exchange qubits. The second table trains `deep` on product states of 2 samples in complex128 and
compares loss and gradient with simulator `statevector` in one process. All processes run on this machine. Times are
medians. The number of bytes is that of the loopback interface. It is correct only if no other process uses it. The
predicted time is that of one process plus the exchanges, as measured for the first table. The third table is an
estimate for a cluster.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from benchmarks.split_states.counts import (
    ALL_TO_ALL,
    SAMPLES,
    SEND,
    estimate,
    exchanges,
    network,
    sent_bytes,
    step_bytes,
)
from benchmarks.split_states.schedule import schedule
from qcnn.jobs.pricing import load_default_prices

# Seconds after which a group of processes is killed.
_LIMIT = 900.0
_EXCHANGED, _TRAINED, _SHARES = (14, 16, 18, 20, 22, 24), (14, 16, 18, 20), (2, 4)
# The example on a cluster: qubits, numbers of machines, Gbit/s that a machine sends and receives, and states of
# 100 steps of 32 samples. The first rate is an assumption for N2 machines with 16 or more vCPUs.
# The second rate is approximately that of a process in the first table.
_QUBITS, _MACHINES, _GBITS, _EVOLVED = 34, (16, 32, 64), (32.0, 4.0), 3200
_FAMILY, _CPUS = "n2-", 16
_BITS, _MEGA = 8, 1e6
# The training step exchanges 2 samples of complex128, as many bytes as complex64 of this number of qubits more.
_MORE_QUBITS = 2

Results = Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Measure split states. Prints Markdown.")
    parser.add_argument("--shares", type=int, nargs="+", default=_SHARES, help="Numbers of shares.")
    parser.add_argument("--exchange", type=int, nargs="*", default=_EXCHANGED, help="Qubits of the exchange.")
    parser.add_argument("--train", type=int, nargs="*", default=_TRAINED, help="Qubits of the training step.")
    arguments = parser.parse_args()
    # SystemExit ends the processes.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    results = {
        (method, count): run_processes(roles, arguments.exchange, arguments.train)
        for count in arguments.shares
        for method, roles in ((SEND, ["server"] * count + ["client"]), (ALL_TO_ALL, ["worker"] * count))
    }
    copies = [line["copy"] / _MEGA for lines in results.values() for line in lines if "copy" in line]
    print(f"Copy of an array in memory: {statistics.median(copies):.0f} MB/s\n")
    print(_exchange_table(results), _step_table(results), _cluster_table(), sep="\n\n")


def run_processes(roles: Sequence[str], exchanged: Sequence[int], trained: Sequence[int]) -> list[dict[str, Any]]:
    """Run processes until the last one has ended, and return its results.

    Args:
        roles: Role of each process, see `process`.
        exchanged: Qubits of measured exchanges.
        trained: Qubits of measured training steps.

    Raises:
        SystemExit: If the last process fails or exceeds the time limit.
    """
    count = len(roles) - roles.count("client")
    with contextlib.ExitStack() as sockets:
        servers = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * count)]
        ports = [server.getsockname()[1] for server in servers]
    addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
    shared = [json.dumps(value) for value in (addresses, ports[count:], list(exchanged), list(trained))]
    # gRPC would use a proxy for local connections, too.
    environment = {**os.environ, "no_grpc_proxy": "127.0.0.1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with contextlib.ExitStack() as running:
        errors = running.enter_context(tempfile.TemporaryFile("w+"))
        for index, role in enumerate(roles):
            command = [sys.executable, "-m", "benchmarks.split_states.process", role, str(os.getpid()), str(index)]
            process = subprocess.Popen(
                [*command, *shared], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            running.callback(_end, process)
        try:
            output, _ = process.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"The processes did not end within {_LIMIT:g} s. Given: {roles}") from None
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{errors.read()}A process failed. Given: {roles}")
    return [json.loads(line) for line in output.splitlines()]


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


def _exchange_seconds(results: Results) -> dict[tuple[str, int, int], float]:
    """Return the seconds of an exchange by method, number of shares and qubits."""
    return {
        (method, shares, line["qubits"]): seconds
        for (_, shares), lines in results.items()
        for line in lines
        for method, seconds in line.get("exchange", {}).items()
    }


def _exchange_table(results: Results) -> str:
    rows = []
    for (method, shares, qubits), seconds in _exchange_seconds(results).items():
        needed, sent = (sent_bytes(name, qubits, shares) / _MEGA for name in (ALL_TO_ALL, method))
        rows.append((shares, qubits, method, f"{sent:.3g}", f"{1e3 * seconds:.3g}", f"{needed / seconds:.0f}"))
    headers = ("processes", "qubits", "method", "MB sent", "ms", "needed MB/s")
    return tabulate(sorted(rows), headers, tablefmt="github", disable_numparse=True)


def _step_table(results: Results) -> str:
    exchange_seconds, rows = _exchange_seconds(results), []
    for (method, shares), lines in results.items():
        for line in lines:
            if "step" not in line:
                continue
            qubits, step = line["qubits"], line["step"]
            segments = schedule(network(qubits), shares)
            expected = step_bytes(segments, method, qubits, shares, SAMPLES, real_bytes=8) / _MEGA
            of_exchange = exchange_seconds.get((method, shares, qubits + _MORE_QUBITS), math.nan)
            predicted = step["reference_seconds"] + exchanges(segments) * of_exchange
            counts = f"{step['difference']:.1e}", f"{expected:.3g}", f"{step['bytes'] / _MEGA:.3g}"
            times = (f"{1e3 * seconds:.3g}" for seconds in (step["reference_seconds"], predicted, step["seconds"]))
            rows.append((shares, qubits, method, *counts, *times))
    counts_and_times = ("difference", "MB by formula", "MB", "ms in one process", "ms predicted", "ms")
    headers = ("processes", "qubits", "method", *counts_and_times)
    return tabulate(sorted(rows), headers, tablefmt="github", disable_numparse=True)


def _cluster_table() -> str:
    without_gpus = {name: machine for name, machine in load_default_prices().machines.items() if not machine.gpus}
    networked = {
        name: machine for name, machine in without_gpus.items() if name.startswith(_FAMILY) and machine.cpus >= _CPUS
    }
    cases = [(1, without_gpus, math.inf), *((shares, networked, rate) for rate in _GBITS for shares in _MACHINES)]
    rows = []
    for shares, machines, gbits in cases:
        each = estimate(_QUBITS, shares, machines, gbits * 1e9 / _BITS, _EVOLVED)
        memory = f"{each.share_gib:.3g}", f"{each.needed_gib:.4g}"
        seconds = f"{each.compute_seconds:.3g}", f"{each.exchange_seconds:.3g}"
        total = f"{each.hours:.3g}", f"{each.dollars:.0f}"
        rate = "" if shares == 1 else f"{gbits:g}"
        rows.append((f"{shares} x {each.machine_type}", rate, *memory, *seconds, *total))
    headers = ("machines", "Gbit/s", "share, GiB", "memory, GiB", "computation, s", "exchange, s", "hours", "USD")
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


if __name__ == "__main__":
    main()
