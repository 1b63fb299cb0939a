"""CPU time of the parts of a default run, with all steps in one process.

Prints CPU seconds as JSON. Each second belongs to one part. Also measures an earlier source tree of this project, if it
is first on PYTHONPATH.
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

# Names of the compiled functions in qcnn/model/steps.py.
_PROGRAMS = ("epoch", "own_steps")
_FIRST = "first epoch"


class Clock:
    """CPU seconds of nested blocks. The time of an outer block excludes that of inner blocks."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._names: list[str] = []
        self._since = 0.0

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Context manager that adds the seconds of its block to `name`."""
        self._add_elapsed()
        self._names.append(name)
        try:
            yield
        finally:
            self._add_elapsed()
            self._names.pop()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of a function that adds its seconds to `name`."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self(name):
                return function(*arguments, **options)

        return call

    def _add_elapsed(self) -> None:
        now = time.process_time()
        if self._names:
            self.seconds[self._names[-1]] += now - self._since
        self._since = now


class _TracedFunction:
    """TensorFlow function that records the CPU time of the thread for its first tracing."""

    def __init__(self, function: Any, traced: list[tuple[float, Any]]) -> None:
        self._function, self._traced = function, traced
        self._is_traced = False

    def get_concrete_function(self, *arguments: Any) -> Any:
        start = time.thread_time()
        concrete = self._function.get_concrete_function(*arguments)
        if not self._is_traced:
            self._is_traced = True
            self._traced.append((time.thread_time() - start, concrete))
        return concrete

    def __call__(self, *arguments: Any) -> Any:
        if not self._is_traced:
            self.get_concrete_function(*arguments)
        return self._function(*arguments)


@contextlib.contextmanager
def record_tracing() -> Iterator[list[tuple[float, Any]]]:
    """Context manager that yields a list of the functions that its block traces, with their CPU seconds."""
    import tensorflow as tf

    function = tf.function
    traced: list[tuple[float, Any]] = []

    def traced_function(python_function: Any = None, **options: Any) -> Any:
        compiled = function(python_function, **options)
        is_program = getattr(python_function, "__name__", "") in _PROGRAMS and options.get("jit_compile")
        return _TracedFunction(compiled, traced) if is_program else compiled

    with mock.patch.object(tf, "function", traced_function):
        yield traced


class _Epochs:
    """Wrapper of an epoch that measures the first epoch and all later epochs separately."""

    def __init__(self, clock: Clock, epoch: Callable[..., Any]) -> None:
        self._epoch, self._clock = epoch, clock
        self.count = 0

    def __call__(self, *arguments: Any) -> Any:
        with self._clock("later epochs" if self.count else _FIRST):
            result = self._epoch(*arguments)
        self.count += 1
        return result


def main() -> None:
    """Run the steps and print their CPU seconds."""
    clock = Clock()
    with clock("import of TensorFlow"):
        from qcnn.process.library_loading import load_tensorflow, start_compiler

        load_tensorflow()
    with clock("start of the compiler"):
        start_compiler()
    with clock("import of Cirq"):
        importlib.import_module("cirq")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        with clock("import of qcnn"):
            from qcnn import data
            from qcnn.experiment.parsing import from_mapping
            from qcnn.model.checkpoints import load_history
            from qcnn.results import evaluate, export, report
            from qcnn.trainer import loop, state
            from qcnn.trainer.tensorboard import TensorBoardWriter
        for owner, name, part in (
            (state.TrainingState, "save", "checkpoints"),
            (TensorBoardWriter, "__init__", "TensorBoard"),
            (TensorBoardWriter, "epoch", "TensorBoard"),
            (TensorBoardWriter, "close", "TensorBoard"),
        ):
            setattr(owner, name, clock.wrap(part, getattr(owner, name)))
        epochs = _Epochs(clock, state.TrainingState.epoch)
        stack.enter_context(mock.patch.object(state.TrainingState, "epoch", lambda *arguments: epochs(*arguments)))
        config = from_mapping({"strategy": "none", "workers": 1})
        workdir, model = Path(folder, "training"), Path(folder, "model")
        with clock("data"):
            dataset = data.generate(config)
        with clock("rest of training"), record_tracing() as traced:
            loop.train(config, dataset, workdir)
        with clock("export"):
            export.export(workdir, model)
        with clock("evaluate"):
            result = evaluate.evaluate(model, dataset)
        with clock("report"):
            history = load_history(workdir)
            report.report_page(result.description, history, result.samples, result.predictions, result.metrics)
    print(json.dumps(_split_first_epoch(clock.seconds, [seconds for seconds, _ in traced], epochs.count)))


def _split_first_epoch(seconds: dict[str, float], traced: Sequence[float], epochs: int) -> dict[str, float]:
    """Return the seconds of all parts, with the first epoch split into tracing and compilation.

    Args:
        seconds: Seconds of the parts.
        traced: Seconds of the tracing of training and of validation.
        epochs: Number of epochs.
    """
    tracing = dict(zip(("tracing of training", "tracing of validation"), traced, strict=True))
    compilation = seconds[_FIRST] - sum(traced) - seconds["later epochs"] / (epochs - 1)
    rest = {name: value for name, value in seconds.items() if name != _FIRST}
    return {**rest, **tracing, "compilation": compilation}


if __name__ == "__main__":
    main()
