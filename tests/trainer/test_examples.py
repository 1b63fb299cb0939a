"""Doctests of the entry points, run in this order in one folder."""

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn import data, simulators
from qcnn.experiment import parsing
from qcnn.planning import plan
from qcnn.results import evaluate, export, predictor
from qcnn.studies import trials
from qcnn.tables import table
from qcnn.trainer import loop

# Later examples may use files of earlier ones.
ENTRY_POINTS: tuple[Callable[..., Any], ...] = (
    parsing.from_mapping,
    data.generate,
    simulators.create,
    loop.train,
    export.export,
    evaluate.evaluate,
    predictor.load_predictor,
    plan.count,
    trials.plan,
    table.open_table,
    table.new_table,
)


def test_docstring_examples_of_entry_points_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for function in ENTRY_POINTS:
        # Examples have the function and their own imports only.
        (example,) = finder.find(function, globs={function.__name__: function})
        assert example.examples, f"{example.name} has no example"
        report: list[str] = []
        assert runner.run(example, out=report.append).failed == 0, "".join(report)
