"""Step and epochs on own data, of qcnn and tensorcircuit-ng: python -m benchmarks.own_data.

Prints Markdown. `--rows deep-8-32,layers-8-32` selects rows. Each sample has one feature per qubit, so it is a state of
its own. `amplitudes` is `deep` on given states, `classes` is `layers` with the cross-entropy of ten classes, and
`reuploading` has the features in each of its 3 layers. Only
one process runs at a time. All processes train the same network from the same weights on the same batches. `make
frameworks` installs tensorcircuit-ng.
"""

import argparse
import dataclasses
import math
import os
import subprocess
import sys
from typing import Any

from tabulate import tabulate

from benchmarks.frameworks.launch import launch

SAMPLES, EPOCHS = 1000, 10
# Time limit of a process, in seconds.
TIME_LIMIT = 600
# Forms of a circuit in tensorcircuit-ng, of which the fastest counts.
FORMS = {"gates": (), "blocks": ("--blocks",), "light cone": ("--blocks", "--lightcone")}
ROWS = [f"{model}-{qubits}-{batch}" for model in ("deep", "layers") for qubits in (8, 12, 16) for batch in (32, 256)]
ROWS += [f"{kind}-8-{batch}" for kind in ("amplitudes", "classes") for batch in (32, 256)]
ROWS += [f"reuploading-{qubits}-{batch}" for qubits in (8, 12) for batch in (32, 256)]
# Models and samples of the last rows.
_KINDS = {"amplitudes": ("deep", "--amplitudes"), "classes": ("layers", "--features", "--classes", "10")}


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds per step, seconds from process start to the end of the first step, and losses of the first steps."""

    step: float
    first: float
    losses: tuple[float, ...]

    def training(self, batch: int) -> float:
        """Return the seconds of the epochs, from process start.

        Args:
            batch: Batch size.
        """
        return self.first + (EPOCHS * math.ceil(SAMPLES / batch) - 1) * self.step


def measure(module: str, *arguments: str) -> Measured | None:
    """Run the process of a framework, and return its result, or None if it fails or exceeds the time limit."""
    print(f"measuring {module} {' '.join(arguments)}", file=sys.stderr, flush=True)
    try:
        result: dict[str, Any] = launch(module, *arguments, timeout=TIME_LIMIT)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return Measured(result["median_step_seconds"], result["first_seconds"], tuple(result["losses"]))


def row(name: str, simulator: str) -> tuple[list[str], float]:
    """Measure a row, and return its cells and the largest difference between losses.

    Args:
        name: Model or kind, qubits and batch size, joined by hyphens.
        simulator: Simulator of qcnn.
    """
    kind, qubits, batch = name.split("-")
    model, *samples = _KINDS.get(kind, (kind, "--features"))
    common = (model, qubits, *samples, "--batch", batch)
    own = measure("qcnn_step", *common, "--simulator", simulator)
    forms = {form: measure("tensorcircuit", *common, *flags) for form, flags in FORMS.items()}
    finished = {form: result for form, result in forms.items() if result}
    title = f"{kind} {qubits}, {batch}"
    if own is None:
        return [title, "failed"], 0.0
    cells = [title, f"{1e3 * own.step:.3g}", f"{own.training(int(batch)):.3g}"]
    if not finished:
        return [*cells, f"none in {TIME_LIMIT / 60:g} min"], 0.0
    form = min(finished, key=lambda form: finished[form].step)
    step = finished[form].step
    training = min(each.training(int(batch)) for each in finished.values())
    cells += [f"{1e3 * step:.3g} ({form})", f"{training:.3g}", f"{step / own.step:.3g} x"]
    cells.append(f"{training / own.training(int(batch)):.3g} x")
    differences = [max(each) - min(each) for each in zip(own.losses, finished[form].losses, strict=False)]
    return cells, max(differences)


def main() -> None:
    """Print milliseconds per step, seconds of the epochs, and speedups."""
    parser = argparse.ArgumentParser(description="Compare training on own data. Prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="Rows to measure, separated by commas. Default: all.")
    parser.add_argument("--simulator", default="auto", help="Simulator of qcnn. Default: auto.")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows.split(",")) - set(ROWS):
        parser.error(f"--rows: must be one or more of {','.join(ROWS)}. Given: {','.join(sorted(unknown))}")
    rows, differences = zip(*(row(name, arguments.simulator) for name in arguments.rows.split(",")), strict=True)
    headers = ["network, batch", "qcnn, ms", f"{EPOCHS} epochs, s", "tensorcircuit-ng, ms", f"{EPOCHS} epochs, s"]
    print(f"Median step, and {EPOCHS} epochs of {SAMPLES} samples from process start, on {os.cpu_count()} cores:\n")
    print(tabulate(rows, [*headers, "step", "epochs"], tablefmt="github", disable_numparse=True))
    print(f"\nLosses of the first steps differ by at most {max(differences):.0e}.")


if __name__ == "__main__":
    main()
