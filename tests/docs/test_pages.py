"""Tests of the documents: generated tables, names, images, links and length."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from qcnn.cli.target_choice import COMMANDS
from qcnn.data import EXCITATIONS
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.training_estimate import expectation
from qcnn.results.evaluate import EvaluationResult, report
from qcnn.simulators import registry
from qcnn.simulators.structure.gates import read_model
from qcnn.targets import target_classes
from qcnn.targets.base import Submits
from tests.docs.documents import DOCUMENTS, PAGES, ROOT, count_words

MAX_IMAGE_BYTES = 200_000
MAX_PAGE_WORDS, MAX_WORDS, MAX_README_LINES = 1_700, 34_500, 115
# Paths of the checkout in backticks.
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|yaml|md))`")
# Files of a run and files that compile.py writes.
_GENERATED = ("build/", "evaluate/", "runs/")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "reference_tables.py"))


def test_generated_tables_are_current(script: dict[str, Any]) -> None:
    for name in script["PAGES"].values():
        page = (ROOT / "docs" / name).read_text()
        assert script["with_tables"](page) == page


def test_generated_tables_are_complete(script: dict[str, Any]) -> None:
    tables = script["field_tables"]()
    assert sorted(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == sorted(ALL_FIELDS)
    headings = re.findall(r"^## (.+)$", script["setting_tables"](), re.MULTILINE)
    assert ", ".join(headings).split(", ") == list(target_classes(Submits))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("learning_rate", "| 0.05 | > 0 | Peak learning rate. |"),
        ("qubits", "| 8 | 1 to 32768 | Number of qubits on the ring, at least 4 with built-in models. |"),
        ("train_fraction", "| 0.7 | > 0 and < 1 | Fraction of samples in the training split. |"),
    ],
)
def test_field_row_has_default_limits_and_description(script: dict[str, Any], name: str, cells: str) -> None:
    assert script["field_row"](name) == f"| `{name}` {cells}\n"


def test_cli_page_lists_targets_of_each_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    rows = dict(re.findall(r"^\| `qcnn (\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    for name, command in COMMANDS.items():
        assert rows[name] == ", ".join(f"`{target}`" for target in command.targets)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_is_short(path: Path) -> None:
    assert count_words(path) <= MAX_PAGE_WORDS


def test_pages_and_readme_are_short() -> None:
    assert sum(map(count_words, PAGES)) <= MAX_WORDS
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_table_cells_contain_one_number(path: Path) -> None:
    assert not re.findall(r"^\|.*\d; \d[^:]*\|$", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_named_modules_targets_and_files_exist(path: Path) -> None:
    text = path.read_text()
    for module in re.findall(r"python -m ((?:benchmarks|trainer)(?:\.\w+)+)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in _PATH.findall(text):
        if not name.startswith(_GENERATED):
            # Paths of library modules may start below qcnn/.
            assert (ROOT / name).is_file() or (ROOT / "qcnn" / name).is_file(), name


def test_documents_contain_no_paths_outside_checkout() -> None:
    for path in [*DOCUMENTS, *ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/*.py")]:
        assert not re.search(r"\.\./|/(work|tmp)/", path.read_text()), path.name


def test_images_are_small_and_used() -> None:
    used = {Path(name).name for path in DOCUMENTS for name in re.findall(r"!\[[^]]+\]\((\S+)\)", path.read_text())}
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    assert sizes.keys() == used
    assert max(sizes.values()) <= MAX_IMAGE_BYTES


# mkdocs checks the links of pages.
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in PAGES], ids=lambda path: path.name)
def test_links_outside_the_site_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", path.read_text()):
        assert target.startswith("https://") or (ROOT / target).is_file(), target


def test_site_builds_and_loads_no_external_files(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        html = (site / page.with_suffix(".html").name).read_text()
        assert not re.findall(r'(?:src|<link[^>]*href)="https?://', html)


def test_quickstart_shows_expectation_as_logged() -> None:
    config = from_mapping({})
    _, network = read_model(config.model, config.qubits)
    simulator = registry.cheapest(registry.estimates(network, config.limits), network, config.limits).simulator
    (line, *_) = expectation(config, network, simulator, config.epochs).lines(config.epochs)
    assert f"    [worker 0] {line}\n" in (ROOT / "docs" / "quickstart.md").read_text()


def test_quickstart_shows_evaluation_as_printed(caplog: pytest.LogCaptureFixture) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    found = re.search(r"== evaluate\n    simulator: .*\n((?:    .*\n)+)", page)
    assert found
    lines = [line.removeprefix("    ") for line in found[1].splitlines()]
    header, *rows = (line.split() for line in lines[:-3])
    numbers = [[float(cell) if "." in cell else int(cell) for cell in row] for row in rows]
    (more,), (mse, accuracy, samples), (fresh, _) = (re.findall(r"[\d.]*\d", line) for line in lines[-3:])
    assert len(rows) + int(more) == int(samples)
    evaluation = SimpleNamespace(
        columns=dict(zip(header, zip(*numbers, strict=True), strict=True)),
        metrics={"mse": float(mse), "accuracy": float(accuracy), "fresh_mse": float(fresh)},
        samples=range(int(samples)),
        predictions=np.ones(int(samples)),
        rounding=0.0,
        layout=EXCITATIONS,
    )
    with caplog.at_level("INFO", logger="qcnn"):
        report(cast(EvaluationResult, evaluation))
    assert caplog.messages == lines
