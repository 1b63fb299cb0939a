"""Training steps on a GPU: python -m benchmarks.gpu.

A step is the forward pass and the gradient of the loss, compiled by XLA. Prints Markdown; `--rows` selects rows. A row
is samples-model-qubits-batch-precision, where precision tf32 is complex64 with products of 10-bit mantissas.

Without a GPU, rows are "not run". `--export FOLDER` then writes the programs of the rows, with their arguments and with
results of the CPU in complex128, and `python -m benchmarks.frameworks.xla_programs FOLDER` runs them on a machine that
has a GPU and JAX, but no TensorFlow.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.frameworks import xla_programs
from benchmarks.frameworks.network import HIDDEN_UNITS, StepTask
from benchmarks.frameworks.process import repeat
from benchmarks.frameworks.qcnn_step import shards_of
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign, values_of
from qcnn.model.steps import gradient_of
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_model

SAMPLES, MODELS, PRECISIONS = ("features", "excitations"), ("deep", "layers", "hybrid"), ("c64", "c128", "tf32")
ROWS = (
    *(f"features-deep-{qubits}-32-c64" for qubits in (12, 16, 20, 24)),
    *(f"features-deep-{qubits}-1-c64" for qubits in (28, 30)),
    *(f"features-deep-{qubits}-256-c64" for qubits in (12, 16)),
    *(f"excitations-deep-{qubits}-32-c64" for qubits in (12, 16, 20, 24)),
    *(f"features-layers-{qubits}-32-c64" for qubits in (12, 16, 20)),
    *(f"features-deep-{qubits}-32-{precision}" for precision in ("c128", "tf32") for qubits in (12, 16, 20)),
    "features-hybrid-16-32-c128",
)
# Memory of simulated states, in GiB. A circuit of 30 qubits needs it; the others need less than 80 GB.
MEMORY = 120
# Largest circuit whose results are computed on the CPU.
REFERENCE_QUBITS = 24
REPEATS = 3


class Row(NamedTuple):
    """Samples, model, qubits, batch size and precision of a row."""

    samples: str
    model: str
    qubits: int
    batch: int
    precision: str

    @property
    def task(self) -> StepTask:
        """Network and batches."""
        return StepTask(self.model, self.qubits, self.batch, features=self.samples == "features")

    def config(self, **changed: Any) -> ExperimentConfig:
        """Return the experiment, with changed fields."""
        return from_mapping(
            {
                "model": "benchmarks.frameworks.layers:layers" if self.model == "layers" else self.model,
                **({"data": "examples/moons.csv", "encoding": "ry"} if self.samples == "features" else {}),
                "qubits": self.qubits,
                "simulator": "lightcone" if self.model == "hybrid" else "statevector",
                "batch_size": self.batch,
                "hidden_units": HIDDEN_UNITS,
                "strategy": "none",
                "workers": 1,
                "options": {
                    "simulator_memory_gib": MEMORY,
                    "precision": "complex128" if self.precision == "c128" else "complex64",
                    "readout_normalization": "none",
                },
                **changed,
            }
        )


def parse_row(text: str) -> Row:
    """Parse a row.

    Raises:
        ValueError: If the text is not samples-model-qubits-batch-precision.
    """
    samples, model, qubits, batch, precision = text.split("-")
    if samples not in SAMPLES or model not in MODELS or precision not in PRECISIONS:
        raise ValueError
    return Row(samples, model, int(qubits), int(batch), precision)


def step_of(row: Row, config: ExperimentConfig) -> tuple[Callable[..., tf.Tensor], list[tf.Tensor]]:
    """Return the compiled gradient of a row, with the loss as its second last element, and its arguments."""
    model, task = build_model(config), row.task
    # The model disables TensorFloat-32.
    tf.config.experimental.enable_tensor_float_32_execution(row.precision == "tf32")
    assign(model.trainable_variables, task.weights)
    arrays = {name: array[0, 0] for name, array in shards_of([task.samples(0)]).arrays.items()}
    gradient, names = gradient_of(model), tuple(arrays)

    @tf.function(jit_compile=model.get_layer("quantum").compiles, autograph=False)
    def step(weights: Sequence[tf.Tensor], *values: tf.Tensor) -> tf.Tensor:
        return gradient(weights, **dict(zip(names, values, strict=True)))

    weights = [tf.constant(values) for values in values_of(model.trainable_variables)]
    return step, [weights, *map(tf.constant, arrays.values())]


def references(names: Sequence[str]) -> dict[str, npt.NDArray[np.float64] | None]:
    """Return gradient and loss of rows from the CPU in complex128, or None if the circuit is too large."""
    # A new process, because this one may use GPUs.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        return dict(zip(names, processes.map(_reference, map(parse_row, names)), strict=True))


def _reference(row: Row) -> npt.NDArray[np.float64] | None:
    if row.qubits > REFERENCE_QUBITS:
        return None
    tf.config.set_visible_devices([], "GPU")
    options = {"precision": "complex128", "simulator_memory_gib": 12, "readout_normalization": "none"}
    step, arguments = step_of(row, row.config(simulator="auto", options=options))
    result: npt.NDArray[np.float64] = step(*arguments).numpy()
    return result


def least_bytes(row: Row) -> float:
    """Return the bytes that a step of `statevector` moves at least, or 0 for another simulator.

    A group of gates reads and writes the state forward, and state and adjoint backward.
    """
    config = row.config()
    if config.simulator != "statevector":
        return 0.0
    network = read_model(config.model, config.qubits, config.preparation)[1]
    states = row.batch if row.samples == "features" else min(row.batch, row.qubits + 1)
    amplitude = 16 if row.precision == "c128" else 8
    return float(len(group_blocks(fuse(network.gates))) * 6 * states * amplitude * 2**row.qubits)


def export(name: str, expected: npt.NDArray[np.float64] | None, folder: Path) -> None:
    """Write program, arguments and expected result of a row to a folder.

    Args:
        name: Row.
        expected: Its result from `references`.
        folder: Existing folder.
    """
    row = parse_row(name)
    step, arguments = step_of(row, row.config())
    captured = step.get_concrete_function(*arguments).captured_inputs  # type: ignore[attr-defined]
    program = step.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")  # type: ignore[attr-defined]
    values = [np.asarray(value) for value in (*arguments[0], *arguments[1:], *captured)]
    named = {f"argument_{number:03}": value for number, value in enumerate(values)}
    arrays: dict[str, Any] = {**named, **({} if expected is None else {"expected": expected})}
    np.savez(folder / f"{name}.npz", **arrays)
    (folder / f"{name}.json").write_text(json.dumps({"least_bytes": least_bytes(row)}))
    (folder / f"{name}.hlo").write_bytes(program)


def measure(name: str, expected: npt.NDArray[np.float64] | None) -> xla_programs.Measured | None:
    """Compile and run a row on the GPU, and return what was measured, or None if its memory is too small."""
    tf.config.experimental.reset_memory_stats("GPU:0")
    try:
        return _measured(name, expected)
    except tf.errors.ResourceExhaustedError as error:
        print(f"{name}: {str(error)[:500]}", file=sys.stderr, flush=True)
        return None


def _measured(name: str, expected: npt.NDArray[np.float64] | None) -> xla_programs.Measured:
    row = parse_row(name)
    step, arguments = step_of(row, row.config())
    start = time.perf_counter()
    result = step(*arguments).numpy()
    first = time.perf_counter() - start
    seconds = repeat(lambda: step(*arguments).numpy(), REPEATS)
    memory = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return xla_programs.Measured(first, seconds, memory, result, expected, least_bytes(row))


def main() -> None:
    """Measure or export the rows."""
    parser = argparse.ArgumentParser(description="Measure training steps on a GPU. Prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="Rows, separated by commas. Default: all of the table.")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="Write the programs of the rows to a folder.")
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    for name in names:
        try:
            parse_row(name)
        except ValueError:
            choices = "-".join("|".join(names) for names in (SAMPLES, MODELS, ("qubits",), ("batch",), PRECISIONS))
            parser.error(f"--rows: must be {choices}. Given: {name[:200]}")
    if arguments.export:
        arguments.export.mkdir(parents=True, exist_ok=True)
        expected = references(names)
        for name in names:
            print(f"exporting {name}", file=sys.stderr, flush=True)
            export(name, expected[name], arguments.export)
    elif not tf.config.list_physical_devices("GPU"):
        print(xla_programs.table([(name, None) for name in names], bandwidth=0.0))
    else:
        expected = references(names)
        device = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])["device_name"]
        print(f"{device}, TensorFlow {tf.__version__}:\n")
        bandwidth = xla_programs.copy_bandwidth(lambda size: tf.ones([size]), lambda values: (values + 1)[0].numpy())
        print(xla_programs.table([(name, measure(name, expected[name])) for name in names], bandwidth))


if __name__ == "__main__":
    main()
