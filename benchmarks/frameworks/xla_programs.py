"""Run exported training steps on a device of JAX: python -m benchmarks.frameworks.xla_programs FOLDER.

`benchmarks.gpu --export FOLDER` writes the programs. Prints Markdown. Imports neither TensorFlow nor qcnn.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.frameworks.process import repeat

REPEATS = 3
_COPIED = 2**30
_COPIES = 10


class Measured(NamedTuple):
    """Measured step.

    Attributes:
        first: Seconds from the compilation to the first result.
        seconds: Seconds of further steps.
        memory: Bytes of memory of the device.
        result: Gradient and loss.
        expected: Result of the CPU in complex128, if it was computed.
        least_bytes: Bytes that a step moves at least, or 0 if this is unknown.
    """

    first: float
    seconds: Sequence[float]
    memory: float
    result: npt.NDArray[np.float64]
    expected: npt.NDArray[np.float64] | None
    least_bytes: float


def copy_bandwidth(create: Callable[[int], Any], increment: Callable[[Any], Any]) -> float:
    """Return the bytes per second that a device reads and writes.

    Args:
        create: Returns an array of float32 of a size.
        increment: Adds a number to an array, and returns when the sum is complete.
    """
    values, seconds = create(_COPIED), []
    for _ in range(_COPIES):
        start = time.perf_counter()
        increment(values)
        seconds.append(time.perf_counter() - start)
    return 2 * 4 * _COPIED / min(seconds)


def table(rows: Sequence[tuple[str, Measured | None]], bandwidth: float) -> str:
    """Return the rows as Markdown.

    Args:
        rows: Names, and what was measured, or None.
        bandwidth: Bytes per second that the device reads and writes.
    """
    headers = ["samples, model, qubits, batch, precision", "step, ms", "first, s", "memory, GiB", "x traffic", "error"]
    lines = [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|"]
    for name, measured in rows:
        cells = ["not run"] + 4 * [""] if measured is None else _cells(measured, bandwidth)
        lines.append(f"| {' | '.join([name.replace('-', ', '), *cells])} |")
    return "\n".join(lines)


def _cells(measured: Measured, bandwidth: float) -> list[str]:
    step = statistics.median(measured.seconds)
    least = f"{step * bandwidth / measured.least_bytes:.3g}" if measured.least_bytes else ""
    error = "" if measured.expected is None else f"{np.abs(measured.result - measured.expected).max():.1e}"
    return [f"{1e3 * step:.4g}", f"{measured.first:.3g}", f"{measured.memory / 2**30:.2g}", least, error]


def run(
    program: bytes, values: Sequence[npt.NDArray[Any]]
) -> tuple[float, list[float], float, npt.NDArray[np.float64]]:
    """Return seconds to the first result, seconds of further runs, bytes of memory, and the result of a program.

    Args:
        program: Serialized HLO of a program with one result.
        values: Arguments.
    """
    import jax
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    library: Any = importlib.import_module("jaxlib._jax")
    device = jax.devices()[0]
    arguments = [jax.device_put(value, device) for value in values]
    start = time.perf_counter()
    with mlir.make_ir_context():
        module = ir.Module.parse(library.mlir.hlo_to_stablehlo(program))
        devices = library.DeviceList((device,))
        compiled = device.client.compile_and_load(module, devices, compiler.get_compile_options(1, 1))

    stats = compiled.get_compiled_memory_stats()
    memory = stats.temp_size_in_bytes + stats.argument_size_in_bytes + stats.output_size_in_bytes

    def execute() -> npt.NDArray[np.float64]:
        (result,) = compiled.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return np.asarray(result[0])

    result = execute()
    first = time.perf_counter() - start
    return first, repeat(execute, REPEATS), float(memory), result


def main() -> None:
    """Run the programs of a folder."""
    parser = argparse.ArgumentParser(description="Run exported training steps. Prints Markdown.")
    parser.add_argument("folder", type=Path, help="Folder that benchmarks.gpu --export wrote.")
    parser.add_argument("--rows", default="", help="Rows, separated by commas. Default: all of the folder.")
    arguments = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    found = sorted(path.stem for path in arguments.folder.glob("*.hlo"))
    measured: list[tuple[str, Measured | None]] = []
    device = jax.devices()[0]
    bandwidth = copy_bandwidth(
        lambda size: jax.numpy.ones([size], "float32"), lambda values: (values + 1).block_until_ready()
    )
    for name in arguments.rows.split(",") if arguments.rows else found:
        data = dict(np.load(arguments.folder / f"{name}.npz"))
        expected = data.pop("expected", None)
        least = json.loads((arguments.folder / f"{name}.json").read_text())["least_bytes"]
        program = (arguments.folder / f"{name}.hlo").read_bytes()
        try:
            results = run(program, [data[key] for key in sorted(data)])
        except jax.errors.JaxRuntimeError as error:
            print(f"{name}: {str(error)[:500]}", file=sys.stderr, flush=True)
            measured.append((name, None))
            continue
        measured.append((name, Measured(*results, expected, least)))
        print(table(measured[-1:], bandwidth).splitlines()[-1], file=sys.stderr, flush=True)
    print(f"{device.device_kind}, JAX {jax.__version__}, copies at {bandwidth / 1e9:.4g} GB/s:\n")
    print(table(measured, bandwidth))


if __name__ == "__main__":
    main()
