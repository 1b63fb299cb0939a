"""The examples in the docstrings of the public names, run in this order in one folder."""

import doctest
from collections.abc import Mapping
from pathlib import Path

import pytest

import qcnn
from tests.forks import trainings_forked

# A later one may use what an earlier one leaves.
EXAMPLES = (qcnn.Experiment, qcnn.generate, qcnn.train, qcnn.load, qcnn.evaluate, qcnn.plan, qcnn.study, qcnn)


def test_the_examples_of_the_public_names_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_variables: Mapping[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    for documented in EXAMPLES:
        # Those of a class have their own; a module's names are imported, and so not its own.
        found = doctest.DocTestFinder().find(documented, globs={})
        assert any(example.examples for example in found), documented
        report: list[str] = []
        for example in found:
            with trainings_forked(fork_variables):
                assert runner.run(example, out=report.append).failed == 0, "".join(report)
