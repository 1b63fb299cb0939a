"""The examples in the docstrings of the entry points, run in this order in one folder."""

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn import data, experiment_io, simulators
from qcnn.planning import plan
from qcnn.results import evaluate, export
from qcnn.results import export as predicting
from qcnn.studies import trials
from qcnn.tables import table
from qcnn.trainer import loop

# A later one may use the files that an earlier one leaves.
ENTRY_POINTS: tuple[Callable[..., Any], ...] = (
    experiment_io.from_mapping,
    data.generate,
    simulators.create,
    loop.train,
    export.export,
    evaluate.evaluate,
    predicting.load_predictor,
    plan.count,
    trials.plan,
    table.open_table,
    table.new_table,
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
