"""The examples in the docstrings of the entry points, run in this order in one folder."""

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.trainer import config, data, simulators
from qcnn.trainer.planning import plan
from qcnn.trainer.results import evaluate, export, predicting
from qcnn.trainer.study import trials
from qcnn.trainer.tables import reader, writer
from qcnn.trainer.training import fit

# A later one may use the files that an earlier one leaves.
ENTRY_POINTS: tuple[Callable[..., Any], ...] = (
    config.from_mapping,
    data.generate,
    simulators.create,
    fit.train,
    export.export,
    evaluate.evaluate,
    predicting.load_predictor,
    plan.count,
    trials.plan,
    reader.open_table,
    writer.new_table,
)


def test_the_examples_of_the_entry_points_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for function in ENTRY_POINTS:
        # Like a reader they know the function and what they import themselves.
        (example,) = finder.find(function, globs={function.__name__: function})
        assert example.examples, f"{example.name} has no example"
        report: list[str] = []
        assert runner.run(example, out=report.append).failed == 0, "".join(report)
