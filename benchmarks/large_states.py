"""Memory and time of a step of `statevector_cpu` on large states: python -m benchmarks.large_states.

Prints Markdown. `--qubits 20,24` selects rows. A step is the forward pass and the gradient of `deep` for one sample
with one feature per qubit, in complex64. Each row is a process, whose memory limit excludes kept states.
"Least traffic" is the time of the reads and writes of whole states at the bandwidth of a copy, measured in the same
process.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tabulate import tabulate

from benchmarks.frameworks.launch import run_command
from benchmarks.gpu import Row, step_of
from qcnn.circuits.preparation import Preparation
from qcnn.process.operating_system import cores
from qcnn.simulators import SimulatorLimits
from qcnn.simulators.costs.statevector_cpu import plan_memory, samples_of_a_bundle
from qcnn.simulators.kernels.lanes import spread
from qcnn.simulators.kernels.program import Density, Exchange, PlainZ, Product, Tile, build
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.structure.network import CircuitIR

QUBITS = (20, 22, 24, 26, 27, 28)
REPEATS = 3
# Bytes of an array of the copy, larger than caches.
_COPIED = 2**28


def read_network_of(qubits: int) -> CircuitIR:
    """Return `deep` on samples with one feature per qubit."""
    return read_model("deep", qubits, Preparation("ry", qubits))[1]


def traffic(network: CircuitIR) -> int:
    """Return the number of reads and writes of the state, and of its adjoint, in a step without kept states."""
    program = spread(build(network), samples_of_a_bundle(4))
    forward = backward = 0
    for operation in program.operations:
        register = program.registers[operation.target]
        if len(register.qubits) + len(register.lanes) < network.qubits:
            continue
        match operation:
            case Product():
                forward, backward = forward + 1, backward + 1
            case Tile() | Exchange():
                forward, backward = forward + 2, backward + 4
            case Density() | PlainZ():
                forward, backward = forward + 1, backward + 3
    # The forward pass is repeated, and the adjoint state is set to zero.
    return 2 * forward + backward + 1


def bandwidth() -> float:
    """Return the bytes per second that all cores together read and write in a copy."""
    count = cores()
    arrays = [(np.ones(_COPIED, np.uint8), np.zeros(_COPIED, np.uint8)) for _ in range(count)]
    seconds = []
    with ThreadPoolExecutor(count) as threads:
        for _ in range(REPEATS):
            start = time.perf_counter()
            list(threads.map(lambda pair: np.copyto(pair[1], pair[0]), arrays))
            seconds.append(time.perf_counter() - start)
    return 2 * _COPIED * count / statistics.median(seconds)


def measure(qubits: int) -> dict[str, float]:
    """Run steps in this process, and return seconds, and bytes of memory."""
    row, network = Row("features", "deep", qubits, 1, "c64"), read_network_of(qubits)
    gibibytes = 2.2 * 2**qubits * 8 / 2**30
    options = {"simulator_memory_gib": gibibytes, "readout_normalization": "none"}
    # A small circuit loads and compiles what every process needs.
    small = row._replace(qubits=12)
    step, arguments = step_of(small, small.config(simulator="statevector_cpu"))
    step(*arguments).numpy()
    base = _peak()
    step, arguments = step_of(row, row.config(simulator="statevector_cpu", options=options))
    seconds = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        step(*arguments).numpy()
        seconds.append(time.perf_counter() - start)
    peak = _peak()
    return {
        "planned": plan_memory(network, SimulatorLimits(gibibytes * 2**30, 1)).bytes,
        "states": peak - base,
        "process": peak,
        "seconds": statistics.median(seconds[1:]),
        "least": traffic(network) * 2**qubits * 8 / bandwidth(),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    """Print planned and measured memory, and the time of a step beside that of the least traffic."""
    parser = argparse.ArgumentParser(description="Measure steps on large states. Prints Markdown.")
    parser.add_argument("--qubits", default=",".join(map(str, QUBITS)), help="Numbers of qubits, separated by commas.")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    rows = []
    for qubits in map(int, arguments.qubits.split(",")):
        print(f"measuring {qubits} qubits", file=sys.stderr, flush=True)
        found = run_command([sys.executable, "-m", "benchmarks.large_states", "--measure", str(qubits)])
        memory = [f"{found[key] / 2**30:.3g}" for key in ("planned", "states", "process")]
        ratio = found["states"] / found["planned"]
        times = [f"{found['seconds']:.3g}", f"{found['least']:.3g}", f"{found['seconds'] / found['least']:.3g}"]
        rows.append([f"deep {qubits}", *memory, f"{ratio:.3g}", *times])
    headers = [
        "network",
        "planned, GiB",
        "states, GiB",
        "process, GiB",
        "ratio",
        "step, s",
        "least traffic, s",
        "ratio",
    ]
    print(f"On {cores()} cores:\n")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
