"""What the documents promise that code can check: words, names, pictures and links."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from qcnn.experiment import ALL_FIELDS
from qcnn.fields import describe, written_default
from qcnn.results.evaluate import Evaluation, report
from qcnn.targets import targets_that
from qcnn.targets.base import Submits
from tests.docs.documents import DOCUMENTS, PAGES, ROOT

MOST_BYTES = 200_000
# What stands in backticks and looks like a path of the checkout.
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|yaml|md))`")
# Files of a run, and what compile.py writes.
_MADE = ("build/", "evaluate/", "runs/")


@pytest.mark.parametrize("name", ALL_FIELDS)
def test_every_word_is_described_as_the_config_does(name: str) -> None:
    field = ALL_FIELDS[name]
    page = (ROOT / "docs" / "experiment.md").read_text()
    assert page.count(f"| `{name}` | {written_default(field)} | {describe(field)} |\n") == 1


def test_the_tables_of_reference_pages_are_what_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "reference_tables.py"))
    for name in set(script["PAGES"].values()):
        page = (ROOT / "docs" / name).read_text()
        assert script["with_tables"](page) == page
    assert len(re.findall(r"^\| `\w+` \|", script["words"](), re.MULTILINE)) == len(ALL_FIELDS)
    assert re.findall(r"^## (\S+)$", script["settings"](), re.MULTILINE) == list(targets_that(Submits))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_modules_targets_and_files_that_are_named_exist(path: Path) -> None:
    text = path.read_text()
    for module in re.findall(r"python -m ((?:benchmarks|trainer)\.\w+)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in _PATH.findall(text):
        if not name.startswith(_MADE):
            # Modules of the library are named from its folder on.
            assert (ROOT / name).is_file() or (ROOT / "qcnn" / name).is_file(), name


def test_no_document_needs_what_is_outside_of_the_checkout() -> None:
    for path in [*DOCUMENTS, *ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/*.py")]:
        assert not re.search(r"\.\./|/(work|tmp)/", path.read_text()), path.name


def test_pictures_are_small_and_each_is_shown() -> None:
    shown = {Path(name).name for path in DOCUMENTS for name in re.findall(r"!\[[^]]+\]\((\S+)\)", path.read_text())}
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    assert pictures.keys() == shown
    assert max(pictures.values()) <= MOST_BYTES


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in PAGES], ids=lambda path: path.name)
def test_links_of_what_is_no_page_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", path.read_text()):
        assert target.startswith("https://") or (ROOT / target).is_file(), target


def test_the_site_is_built_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        html = (site / page.with_suffix(".html").name).read_text()
        # Opening a page fetches nothing from elsewhere.
        assert not re.findall(r'(?:src|<link[^>]*href)="https?://', html)


def test_first_run_shows_predictions_as_they_are_printed(caplog: pytest.LogCaptureFixture) -> None:
    page = (ROOT / "docs" / "first-run.md").read_text()
    found = re.search(r"== evaluate\n    simulator: .*\n((?:    .*\n)+)", page)
    assert found
    shown = [line.removeprefix("    ") for line in found[1].splitlines()]
    header, *rows = (line.split() for line in shown[:-3])
    numbers = [[float(cell) if "." in cell else int(cell) for cell in row] for row in rows]
    (more,), (mse, accuracy, samples), (fresh, _) = (re.findall(r"[\d.]*\d", line) for line in shown[-3:])
    assert len(rows) + int(more) == int(samples)
    evaluation = SimpleNamespace(
        columns=dict(zip(header, zip(*numbers, strict=True), strict=True)),
        metrics={"mse": float(mse), "accuracy": float(accuracy), "fresh_mse": float(fresh)},
        samples=range(int(samples)),
    )
    with caplog.at_level("INFO", logger="qcnn"):
        report(cast(Evaluation, evaluation))
    assert caplog.messages == shown
