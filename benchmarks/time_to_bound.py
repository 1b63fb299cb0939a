"""Time from process start to convergence: python -m benchmarks.time_to_bound [--rows hybrid-8].

Prints Markdown. Imports and compilation are included. A network has converged at the first epoch whose MSE on 10,000
fresh samples is within 0.01 of the MSE lower bound. Epochs that compare several initializations do not count. qcnn
trains with default settings. tensorcircuit-ng uses the same samples, batches, learning rates and initializations.
TensorFlow Quantum is simulator `tfq` of qcnn. The MSE is computed after training, from the weights of all epochs.
"""

import argparse
import dataclasses
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from tabulate import tabulate

from benchmarks.convergence import experiment
from benchmarks.frameworks.launch import launch
from benchmarks.frameworks.trace import BenchmarkTask, EpochSnapshot, load_trace, save_task
from qcnn import data
from qcnn.circuits.error_bound import error_bound
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import initializations, trial_epochs
from qcnn.process.library_loading import load_tensorflow

if TYPE_CHECKING:
    import tf_keras

TOLERANCE = 0.01
# Seconds after which no further epoch starts, and time limit of a process, which may not complete an epoch.
LIMIT = 600
_TIMEOUT = 900
RUNS = 3
NAMES = ("qcnn", "tensorcircuit-ng", "TensorFlow Quantum")


@dataclasses.dataclass(frozen=True)
class Row:
    """Network and the frameworks that train it.

    Attributes:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        tensorcircuit: Fastest options of tensorcircuit-ng for the network, or None to omit this framework.
        tfq: Whether to run TensorFlow Quantum.
    """

    model: str
    qubits: int
    tensorcircuit: tuple[str, ...] | None
    tfq: bool = False


ROWS = {
    "hybrid-8": Row("hybrid", 8, (), tfq=True),
    "hybrid-16": Row("hybrid", 16, ("--lightcone",)),
    "hybrid-23": Row("hybrid", 23, ("--lightcone",)),
    "hybrid-1024": Row("hybrid", 1024, None),
    "deep-8": Row("deep", 8, ()),
    "deep-12": Row("deep", 12, ()),
    "deep-16": Row("deep", 16, None),
}


@dataclasses.dataclass(frozen=True)
class TimeToBound:
    """Time to the first epoch near the MSE lower bound, or to the last epoch if none is.

    Attributes:
        seconds: Wall-clock seconds.
        cpu_seconds: User and system CPU seconds.
        mse: MSE of this epoch on fresh samples.
        is_reached: Whether this MSE is near the lower bound.
    """

    seconds: float
    cpu_seconds: float
    mse: float
    is_reached: bool


def find_time_to_bound(
    snapshots: Sequence[EpochSnapshot], mse_of: Callable[[EpochSnapshot], float], bound: float
) -> TimeToBound:
    """Return the time to the first epoch with an MSE of at most `bound`, or to the last epoch.

    Args:
        snapshots: Epochs of a process. Those before the selection of an initialization do not count.
        mse_of: Function that computes the MSE of an epoch.
        bound: Maximum MSE.
    """
    for snapshot in snapshots:
        if not snapshot.undecided and (mse := mse_of(snapshot)) <= bound:
            return TimeToBound(snapshot.seconds, snapshot.cpu_seconds, mse, is_reached=True)
    last = snapshots[-1]
    return TimeToBound(last.seconds, last.cpu_seconds, mse_of(last), is_reached=False)


def create_task(config: ExperimentConfig, model: "tf_keras.Model") -> BenchmarkTask:
    """Return the training run of an experiment as NumPy arrays."""
    import tensorflow as tf

    from qcnn.model.network import initial_weights
    from qcnn.model.optimizer import WarmupSchedule

    dataset = data.generate(config)
    samples = len(dataset.train)
    updates = config.epochs * -(-samples // config.batch_size)
    weights = [initial_weights(model, config, index) for index in range(initializations(config))]
    train, validation = (
        (split.qubit, split.angle, split.label.astype(np.float32)) for split in (dataset.train, dataset.validation)
    )
    return BenchmarkTask(
        model=config.model,
        qubits=config.qubits,
        batch_size=config.batch_size,
        trial_epochs=trial_epochs(config),
        centered=model.get_layer("quantum").centered,
        order=np.stack([data.epoch_order(config.seed, epoch, samples) for epoch in range(1, config.epochs + 1)]),
        rates=WarmupSchedule(config, updates)(tf.range(updates)).numpy(),
        train=train,
        validation=validation,
        weights=tuple(map(np.stack, zip(*weights, strict=True))),
    )


def run(module: str, task: Path, *options: str, environment: str | None = None) -> Sequence[EpochSnapshot] | str:
    """Train in a separate process, and return its epochs, or the reason if it fails.

    Args:
        module: Module of benchmarks.frameworks.
        task: File with the task or experiment.
        *options: Further options of the module.
        environment: Environment of `launch`, if it is not that of the module.
    """
    print(f"measuring {module} {task.stem}", file=sys.stderr, flush=True)
    trace = task.with_suffix(".trace.npz")
    try:
        arguments = (str(task), str(trace), str(time.monotonic()), str(LIMIT), *options)
        launch(module, *arguments, timeout=_TIMEOUT, environment=environment)
    except subprocess.TimeoutExpired:
        return f"no epoch in {_TIMEOUT / 60:g} min"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return load_trace(trace)


def measure(row: Row, runs: int) -> dict[str, TimeToBound | str]:
    """Train a network `runs` times with qcnn, and once with each other framework."""
    from qcnn.model.network import build_model
    from qcnn.results.serving import fresh_mse

    config = experiment(row.model, row.qubits, seed=0)
    model, bound = build_model(config), error_bound(config.model, config.hidden_activation)
    assert bound

    def mse_of(snapshot: EpochSnapshot) -> float:
        mse = fresh_mse(model, config, snapshot.weights)
        assert mse is not None
        return mse

    def evaluate(snapshots: Sequence[EpochSnapshot] | str) -> TimeToBound | str:
        if isinstance(snapshots, str):
            return snapshots
        return find_time_to_bound(snapshots, mse_of, bound.mse + TOLERANCE)

    with tempfile.TemporaryDirectory() as folder:
        experiment_file, task_file = Path(folder, "qcnn.json"), Path(folder, "tensorcircuit.npz")
        experiment_file.write_text(config.to_json())
        results = {"qcnn": median([evaluate(run("qcnn_to_bound", experiment_file)) for _ in range(runs)])}
        if row.tensorcircuit is not None:
            save_task(create_task(config, model), task_file)
            results["tensorcircuit-ng"] = evaluate(run("tensorcircuit_to_bound", task_file, *row.tensorcircuit))
        if row.tfq:
            experiment_file.write_text(from_mapping({**config.model_dump(), "simulator": "tfq"}).to_json())
            results["TensorFlow Quantum"] = evaluate(run("qcnn_to_bound", experiment_file, environment="tfq"))
    return results


def median(runs: Sequence[TimeToBound | str]) -> TimeToBound | str:
    """Return the run with the median time, or the reason of the first failed run."""
    measured = [run for run in runs if isinstance(run, TimeToBound)]
    if len(measured) < len(runs):
        return next(run for run in runs if isinstance(run, str))
    seconds = statistics.median_low(run.seconds for run in measured)
    return next(run for run in measured if run.seconds == seconds)


def cells(result: TimeToBound | str | None, attribute: str) -> tuple[str, str]:
    """Return the cells of a result: seconds to the bound or to the last epoch, and MSE."""
    if not isinstance(result, TimeToBound):
        return result or "not run", ""
    seconds = f"{getattr(result, attribute):.3g}"
    return seconds if result.is_reached else f"stopped at {seconds}", f"{result.mse:.4f}"


def table(results: Mapping[str, Mapping[str, TimeToBound | str]], attribute: str) -> str:
    """Return a table with a row per network and two columns per framework."""
    rows = [
        [title, *(cell for name in NAMES for cell in cells(row.get(name), attribute))] for title, row in results.items()
    ]
    headers = ["", *(column for name in NAMES for column in (f"{name}, s", "MSE"))]
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def plot(results: Mapping[Row, Mapping[str, TimeToBound | str]]) -> Figure:
    """Plot seconds against qubits on logarithmic axes.

    A hollow marker is a run that did not reach the bound.
    """
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, color in zip(NAMES, ("C0", "C1", "C2"), strict=True):
        for model, style in (("hybrid", "-"), ("deep", "--")):
            points = [
                (row.qubits, result)
                for row, by_name in results.items()
                if row.model == model and isinstance(result := by_name.get(name), TimeToBound)
            ]
            if not points:
                continue
            qubits, seconds = [n for n, _ in points], [result.seconds for _, result in points]
            axes.plot(qubits, seconds, style, color=color, marker="o", markersize=4, label=f"{name}, {model}")
            for n, result in points:
                if not result.is_reached:
                    axes.plot(n, result.seconds, "o", markersize=4, color=color, markerfacecolor="white")
    axes.set(xscale="log", yscale="log", xlabel="qubits", ylabel="seconds to the MSE lower bound")
    ticks = sorted({row.qubits for row in results})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def main() -> None:
    """Measure, print the tables and save the plot."""
    parser = argparse.ArgumentParser(description="Measure the time to convergence. Prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="Names of the networks, separated by commas.")
    parser.add_argument("--runs", type=int, default=RUNS, help="Runs of qcnn, of which the median is printed.")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="Plot the seconds against qubits.")
    arguments = parser.parse_args()
    rows = [ROWS[name] for name in arguments.rows.split(",")]
    load_tensorflow()
    # TensorFlow logs a warning for each epoch that is evaluated.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    results = {row: measure(row, arguments.runs) for row in rows}
    named = {f"{row.model} n = {row.qubits:,}": by_name for row, by_name in results.items()}
    print(f"Wall-clock seconds (qcnn: median of {arguments.runs} runs, others: 1 run):\n")
    print(table(named, "seconds"))
    print("\nUser and system CPU seconds to the same epoch:\n")
    print(table(named, "cpu_seconds"))
    if arguments.plot:
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "qcnn"}):
            plot(results).savefig(arguments.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
