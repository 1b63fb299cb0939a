"""Seconds from the start of a process to a trained network: python -m benchmarks.time_to_bound [--rows hybrid-8].

Imports and compiling are included. Trained is the first epoch whose error on 10,000 fresh samples is within 0.01 of the
floor; of several starts, once it is decided which goes on. Ours trains with the defaults of the size; tensorcircuit-ng
with the same samples, batches, initial weights, learning rates and starts; TensorFlow Quantum is our simulator `tfq`.
The errors are worked out after the training, from the weights of every epoch. Prints Markdown.
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
from benchmarks.frameworks.trace import Exercise, Moment, load_trace, save_exercise
from qcnn import data
from qcnn.circuits.error_bound import error_bound
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.model.history import trial_epochs
from qcnn.startup import load_tensorflow

if TYPE_CHECKING:
    import tf_keras

NEAR = 0.01
# Seconds after which no further epoch of a process begins, and those of one that does not come to its first.
LIMIT = 600
_PATIENCE = 900
RUNS = 3
NAMES = ("ours", "tensorcircuit-ng", "TensorFlow Quantum")


@dataclasses.dataclass(frozen=True)
class Row:
    """A network; what makes tensorcircuit-ng fastest with it, None where it is left out; whether TFQ is run."""

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
}


@dataclasses.dataclass(frozen=True)
class Reached:
    """Seconds on the clock and of the processor to the first epoch near the floor, or to the last; its fresh error."""

    seconds: float
    processor: float
    mse: float
    near: bool


def reached(moments: Sequence[Moment], error: Callable[[Moment], float], bound: float) -> Reached:
    """Return the first moment with the start decided and an error of at most `bound`; if there is none, the last."""
    for moment in moments:
        if not moment.undecided and (mse := error(moment)) <= bound:
            return Reached(moment.seconds, moment.processor, mse, near=True)
    last = moments[-1]
    return Reached(last.seconds, last.processor, error(last), near=False)


def exercise_of(config: ExperimentConfig, model: "tf_keras.Model") -> Exercise:
    """Return what an experiment trains, as plain data."""
    import tensorflow as tf

    from qcnn.model.network import initial_weights
    from qcnn.model.optimizer import WarmupSchedule

    dataset = data.generate(config)
    samples = len(dataset.train)
    updates = config.epochs * -(-samples // config.batch_size)
    weights = [initial_weights(model, config, start) for start in range(config.options.num_initializations)]
    train, validation = (
        (split.qubit, split.angle, split.label.astype(np.float32)) for split in (dataset.train, dataset.validation)
    )
    return Exercise(
        model=config.model,
        qubits=config.qubits,
        batch_size=config.batch_size,
        trial=trial_epochs(config),
        centred=model.get_layer("quantum").centered,
        order=np.stack([data.epoch_order(config.seed, epoch, samples) for epoch in range(1, config.epochs + 1)]),
        rates=WarmupSchedule(config, updates)(tf.range(updates)).numpy(),
        train=train,
        validation=validation,
        weights=tuple(map(np.stack, zip(*weights, strict=True))),
    )


def run(module: str, exercise: Path, *words: str) -> Sequence[Moment] | str:
    """Train in a process of its own; if it fails return why."""
    print(f"measuring {module} {exercise.stem}", file=sys.stderr, flush=True)
    trace = exercise.with_suffix(".trace.npz")
    try:
        launch(module, str(exercise), str(trace), str(time.monotonic()), str(LIMIT), *words, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no epoch in {_PATIENCE / 60:g} min"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return load_trace(trace)


def measure(row: Row, runs: int) -> dict[str, Reached | str]:
    """Train a network with ours, the median of so many runs, and once with each peer."""
    from qcnn.model.network import build_model
    from qcnn.results.serving import fresh_mse

    config = experiment(row.model, row.qubits, seed=0)
    model, floor = build_model(config), error_bound(config.model, config.hidden_activation)
    assert floor

    def error(moment: Moment) -> float:
        found = fresh_mse(model, config, moment.weights)
        assert found is not None
        return found

    def judged(moments: Sequence[Moment] | str) -> Reached | str:
        if isinstance(moments, str):
            return moments
        return reached(moments, error, floor.mse + NEAR)

    with tempfile.TemporaryDirectory() as folder:
        words, plain = Path(folder, "ours.json"), Path(folder, "tensorcircuit.npz")
        words.write_text(config.to_json())
        found = {"ours": median([judged(run("qcnn_to_bound", words)) for _ in range(runs)])}
        if row.tensorcircuit is not None:
            save_exercise(exercise_of(config, model), plain)
            found["tensorcircuit-ng"] = judged(run("tensorcircuit_to_bound", plain, *row.tensorcircuit))
        if row.tfq:
            words.write_text(from_mapping({**config.model_dump(), "simulator": "tfq"}).to_json())
            found["TensorFlow Quantum"] = judged(run("qcnn_to_bound", words))
    return found


def median(runs: Sequence[Reached | str]) -> Reached | str:
    """Return the run with the median time, or why there is none."""
    measured = [found for found in runs if isinstance(found, Reached)]
    if len(measured) < len(runs):
        return next(found for found in runs if isinstance(found, str))
    seconds = statistics.median_low(found.seconds for found in measured)
    return next(found for found in measured if found.seconds == seconds)


def cells(found: Reached | str | None, attribute: str) -> tuple[str, str]:
    """Return the cells of a process: seconds and error, or what it came to in its time."""
    if not isinstance(found, Reached):
        return found or "not run", ""
    seconds = f"{getattr(found, attribute):.3g}"
    return seconds if found.near else f"not in {seconds}", f"{found.mse:.4f}"


def table(results: Mapping[str, Mapping[str, Reached | str]], attribute: str) -> str:
    """Return one row a network, two columns a process."""
    rows = [
        [row, *(cell for name in NAMES for cell in cells(found.get(name), attribute))] for row, found in results.items()
    ]
    names = ["", *(column for name in NAMES for column in (f"{name}, s", "MSE"))]
    return tabulate(rows, names, tablefmt="github", disable_numparse=True)


def plot(results: Mapping[Row, Mapping[str, Reached | str]]) -> Figure:
    """Draw the seconds against qubits, on logarithmic axes; a hollow mark stands for a floor that was not reached."""
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, colour in zip(NAMES, ("C0", "C1", "C2"), strict=True):
        for model, style in (("hybrid", "-"), ("deep", "--")):
            points = [
                (row.qubits, found)
                for row, every in results.items()
                if row.model == model and isinstance(found := every.get(name), Reached)
            ]
            if not points:
                continue
            qubits, seconds = [n for n, _ in points], [found.seconds for _, found in points]
            axes.plot(qubits, seconds, style, color=colour, marker="o", markersize=4, label=f"{name}, {model}")
            for n, found in points:
                if not found.near:
                    axes.plot(n, found.seconds, "o", markersize=4, color=colour, markerfacecolor="white")
    axes.set(xscale="log", yscale="log", xlabel="qubits", ylabel="seconds to the floor")
    ticks = sorted({row.qubits for row in results})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def main() -> None:
    """Measure, print the tables and draw the plot."""
    parser = argparse.ArgumentParser(description="Measure the time to a trained network; prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="which ones, by name, with commas between")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of ours, of which the median counts")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the seconds against qubits")
    arguments = parser.parse_args()
    rows = [ROWS[name] for name in arguments.rows.split(",")]
    load_tensorflow()
    # It warns of every set of weights that is judged.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    results = {row: measure(row, arguments.runs) for row in rows}
    named = {f"{row.model} n = {row.qubits:,}": found for row, found in results.items()}
    print(f"Seconds on the clock; of ours the median of {arguments.runs} runs, of the others one:\n")
    print(table(named, "seconds"))
    print("\nSeconds of the processor, user and system, to the same epoch:\n")
    print(table(named, "processor"))
    if arguments.plot:
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "qcnn"}):
            plot(results).savefig(arguments.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
