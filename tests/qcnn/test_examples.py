"""Examples in the docstrings of public names, run in a fixed order in one folder."""

import doctest
from collections.abc import Mapping
from pathlib import Path

import pytest

import qcnn
from tests.forks import forked_training

# Examples may use files of earlier ones.
EXAMPLES = (qcnn.Experiment, qcnn.generate, qcnn.train, qcnn.load, qcnn.evaluate, qcnn.plan, qcnn.study, qcnn)


def test_docstring_examples_of_public_names_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_variables: Mapping[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    for documented in EXAMPLES:
        # Methods have separate examples. The finder skips imported names of a module.
        found = doctest.DocTestFinder().find(documented, globs={})
        assert any(example.examples for example in found), documented
        report: list[str] = []
        for example in found:
            with forked_training(fork_variables):
                assert runner.run(example, out=report.append).failed == 0, "".join(report)
