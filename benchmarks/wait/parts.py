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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

_PROGRAMS = {"training_epoch": "training", "measuring_epoch": "validation"}
# Functions that are compiled, or that call one that is.
_TRACED = ("epoch", "own_steps", "per_replica")


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


class _Programs:
    """Tells tracing, compiling and running of the programs of a training apart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._program = ""
        self._function: Callable[..., Any]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch those that are made in this block."""
        import tensorflow as tf

        from trainer.training import steps

        self._function = tf.function
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(tf, "function", self._traced))
            for name, program in _PROGRAMS.items():
                made = self._made(getattr(steps, name), program)
                stack.enter_context(mock.patch.object(steps, name, made))
            yield

    def _traced(self, python_function: Any = None, **options: Any) -> Any:
        made = self._function(python_function, **options)
        if getattr(python_function, "__name__", "") not in _TRACED:
            return made
        is_traced = False

        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal is_traced
            if not is_traced:
                is_traced = True
                with self._clock(f"tracing {self._program}"):
                    made.get_concrete_function(*arguments, **named)
            return made(*arguments, **named)

        return call

    def _made(self, make: Callable[..., Any], program: str) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Callable[..., Any]:
            run = make(*arguments, **options)
            is_compiled = False

            def call(*shards: Any, **parts: Any) -> Any:
                nonlocal is_compiled
                self._program = program
                name = "later epochs" if is_compiled else f"compiling {program}"
                is_compiled = True
                with self._clock(name):
                    return run(*shards, **parts)

            return call

        return made


def main() -> None:
    """Run the steps and print their seconds."""
    clock = Clock()
    with clock("TensorFlow's import"):
        from trainer.startup import load_tensorflow, start_compiler

        load_tensorflow()
    with clock("the compiler's start"):
        start_compiler()
    with clock("cirq's import"):
        importlib.import_module("cirq")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        with clock("the project's import"):
            # Before the modules that take the programs by name.
            stack.enter_context(_Programs(clock).watched())
            from trainer import data
            from trainer.config import from_mapping
            from trainer.results import evaluate, export, report
            from trainer.training import fit, state
            from trainer.training.history import load_history
            from trainer.training.tensorboard import EventLog
        for place, name, what in (
            (state.Training, "save", "checkpoints"),
            (EventLog, "__init__", "TensorBoard"),
            (EventLog, "epoch", "TensorBoard"),
            (EventLog, "close", "TensorBoard"),
        ):
            setattr(place, name, clock.counted(what, getattr(place, name)))
        config = from_mapping({"strategy": "none", "workers": 1})
        workdir, model = Path(folder, "training"), Path(folder, "model")
        with clock("data"):
            dataset = data.generate(config)
        with clock("the network, and all else of training"):
            fit.train(config, dataset, workdir)
        with clock("export"):
            export.export(workdir, model)
        with clock("evaluate"):
            result = evaluate.evaluate(model, dataset)
        with clock("report"):
            history = load_history(workdir / "history.csv")
            report.report_page(result.description, history, result.samples, result.predictions, result.metrics)
    print(json.dumps(clock.seconds))


if __name__ == "__main__":
    main()
