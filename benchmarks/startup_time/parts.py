"""What one process of a run spends its time on: all steps at defaults, one after the other, in one process.

Prints processor seconds as JSON, each second counted once. Works on earlier trees of this project too, whose modules
then come first on PYTHONPATH.
"""

import contextlib
import importlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

# The functions that are compiled, by their names in qcnn/model/steps.py.
_PROGRAMS = ("epoch", "own_steps")
_FIRST = "the first epoch"


class Clock:
    """Counts processor seconds of nested blocks, those of an inner one for it alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._names: list[str] = []
        self._since = 0.0

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count the seconds of a block for `name`."""
        self._turn()
        self._names.append(name)
        try:
            yield
        finally:
            self._turn()
            self._names.pop()

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose seconds are counted."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self(name):
                return function(*arguments, **options)

        return call

    def _turn(self) -> None:
        now = time.process_time()
        if self._names:
            self.seconds[self._names[-1]] += now - self._since
        self._since = now


class _TracedFirst:
    """A function of TensorFlow's whose first tracing is counted, on the thread that it happens on."""

    def __init__(self, made: Any, traced: list[tuple[float, Any]]) -> None:
        self._made, self._traced = made, traced
        self._seen = False

    def get_concrete_function(self, *arguments: Any) -> Any:
        start = time.thread_time()
        concrete = self._made.get_concrete_function(*arguments)
        if not self._seen:
            self._seen = True
            self._traced.append((time.thread_time() - start, concrete))
        return concrete

    def __call__(self, *arguments: Any) -> Any:
        if not self._seen:
            self.get_concrete_function(*arguments)
        return self._made(*arguments)


@contextlib.contextmanager
def tracing_counted() -> Iterator[list[tuple[float, Any]]]:
    """Yield the programs of training and of validation that are traced in this block, with the seconds it took."""
    import tensorflow as tf

    function = tf.function
    traced: list[tuple[float, Any]] = []

    def counted(python_function: Any = None, **options: Any) -> Any:
        made = function(python_function, **options)
        is_program = getattr(python_function, "__name__", "") in _PROGRAMS and options.get("jit_compile")
        return _TracedFirst(made, traced) if is_program else made

    with mock.patch.object(tf, "function", counted):
        yield traced


class _Epochs:
    """Counts the first epoch apart from the others."""

    def __init__(self, clock: Clock, epoch: Callable[..., Any]) -> None:
        self._epoch, self._clock = epoch, clock
        self.count = 0

    def __call__(self, *arguments: Any) -> Any:
        with self._clock("later epochs" if self.count else _FIRST):
            done = self._epoch(*arguments)
        self.count += 1
        return done


def main() -> None:
    """Run the steps and print their seconds."""
    clock = Clock()
    with clock("TensorFlow's import"):
        from qcnn.startup import load_tensorflow, start_compiler

        load_tensorflow()
    with clock("the compiler's start"):
        start_compiler()
    with clock("cirq's import"):
        importlib.import_module("cirq")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        with clock("the project's import"):
            from qcnn import data
            from qcnn.experiment_io import from_mapping
            from qcnn.model.history import load_history
            from qcnn.results import evaluate, export, report
            from qcnn.trainer import loop, state
            from qcnn.trainer.tensorboard import TensorBoardWriter
        for place, name, what in (
            (state.TrainingState, "save", "checkpoints"),
            (TensorBoardWriter, "__init__", "TensorBoard"),
            (TensorBoardWriter, "epoch", "TensorBoard"),
            (TensorBoardWriter, "close", "TensorBoard"),
        ):
            setattr(place, name, clock.counted(what, getattr(place, name)))
        epochs = _Epochs(clock, state.TrainingState.epoch)
        stack.enter_context(mock.patch.object(state.TrainingState, "epoch", lambda *arguments: epochs(*arguments)))
        config = from_mapping({"strategy": "none", "workers": 1})
        workdir, model = Path(folder, "training"), Path(folder, "model")
        with clock("data"):
            dataset = data.generate(config)
        with clock("the network, and all else of training"), tracing_counted() as traced:
            loop.train(config, dataset, workdir)
        with clock("export"):
            export.export(workdir, model)
        with clock("evaluate"):
            result = evaluate.evaluate(model, dataset)
        with clock("report"):
            history = load_history(workdir / "history.csv")
            report.report_page(result.description, history, result.samples, result.predictions, result.metrics)
    print(json.dumps(_parted(clock.seconds, [seconds for seconds, _ in traced], epochs.count)))


def _parted(seconds: dict[str, float], traced: Sequence[float], epochs: int) -> dict[str, float]:
    """Return the seconds with those of the first epoch in their parts."""
    tracing = dict(zip(("tracing training", "tracing validation"), traced, strict=True))
    compiling = seconds[_FIRST] - sum(traced) - seconds["later epochs"] / (epochs - 1)
    rest = {name: value for name, value in seconds.items() if name != _FIRST}
    return {**rest, **tracing, "compiling both": compiling}


if __name__ == "__main__":
    main()
