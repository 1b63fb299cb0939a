"""Tests of qcnn compare on local runs; tests/qcnn/cli/kubeflow tests remote runs."""

import contextlib
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qcnn.circuits.formats.embedded import embed
from qcnn.cli.main import main
from tests.qcnn.cli.run_folders import run_folder

FIRST, SECOND = "the-first", "a-second"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    second: dict[str, Any] = {"started": "2026-11-21T10:00:00Z", "ended": "2026-11-21T10:00:21.500Z"}
    first: dict[str, Any] = {"started": "2026-11-20T23:59:50Z", "ended": "2026-11-21T00:00:10.250Z"}
    run_folder(root, SECOND, {"seed": 1, "optimizer": "sgd"}, 0.25, **second)
    run_folder(root, FIRST, {"learning_rate": 0.5}, 0.5, **first)
    return root


@pytest.fixture
def compare(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs the command in the parent folder of the runs and returns its stdout or stderr."""

    def typed(*arguments: str) -> str:
        monkeypatch.chdir(runs.parent)
        monkeypatch.setattr("sys.argv", ["qcnn", "compare", *arguments])
        with contextlib.suppress(SystemExit):
            main()
        captured = capsys.readouterr()
        # The output is a result or a one-line error.
        assert (captured.out == "") == captured.err.startswith("error: ")
        assert captured.err.count("\n") == (captured.out == "")
        return captured.out or captured.err

    return typed


def test_compare_shows_circuit_by_file_name(runs: Path, compare: Any) -> None:
    run_folder(runs, "a-third", {"model": embed("a.qasm", "[]")}, 0.25)
    for form in ("text", "csv", "json"):
        shown = compare("--format", form)
        assert "a.qasm@4f53cda1" in shown
        assert "a.qasm#" not in shown


def _rows(compare: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    return {row["run"]: row for row in json.loads(compare(*arguments, "--format", "json"))}


def test_compare_shows_differing_fields_metrics_and_duration(compare: Any) -> None:
    header, _, *rows = (re.split(r"  +", line.strip()) for line in compare().splitlines())
    assert header == [
        "run",
        "state",
        "seed",
        "optimizer",
        "learning_rate",
        "mse",
        "accuracy",
        "duration",
    ]
    assert rows == [
        [FIRST, "succeeded", "0", "adam", "0.5", "0.5000", "1", "0:00:20"],
        [SECOND, "succeeded", "1", "sgd", "0.05", "0.2500", "1", "0:00:22"],
    ]


def test_compare_in_terminal_of_40_columns_shows_all_columns(compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    header, *_ = compare().splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    lines = compare().splitlines()
    assert max(map(len, lines)) <= 40
    assert {*" ".join(lines).split()} >= {*header.split(), FIRST, SECOND, "0.5000", "0:00:22"}


def test_compare_shows_trained_and_requested_epochs(runs: Path, compare: Any) -> None:
    run_folder(runs, "longer", {"epochs": 60}, 0.5, trained=60)
    assert {run: (row["epochs"], "metrics.epochs" in row) for run, row in _rows(compare).items()} == {
        FIRST: (50, False),
        SECOND: (50, False),
        "longer": (60, False),
    }
    run_folder(runs, "stopped-early", {"epochs": 60, "options": {"patience": 3}}, 0.5, trained=7)
    row = _rows(compare)["stopped-early"]
    assert (row["epochs"], row["metrics.epochs"]) == (60, 7)


def test_csv_and_json_have_equal_unrounded_values(compare: Any) -> None:
    read = list(csv.DictReader(io.StringIO(compare("--format", "csv"))))
    rows = _rows(compare)
    assert rows[FIRST]["duration"] == 20.25
    assert [{name: str(value) for name, value in row.items()} for row in rows.values()] == read


@pytest.mark.parametrize(
    ("column", "order"), [("mse", [SECOND, FIRST]), ("seed", [FIRST, SECOND]), ("optimizer", [FIRST, SECOND])]
)
def test_sort_puts_blanks_last(runs: Path, compare: Any, column: str, order: list[str]) -> None:
    (runs / "early").mkdir()
    (runs / "early" / "log.txt").touch()
    assert list(_rows(compare, "--sort", column)) == [*order, "early"]


def test_sort_by_missing_column_is_an_error(compare: Any) -> None:
    assert re.match(
        r"error: sort: must be one of run, state, seed, .*duration\. Given: speed\n", compare("--sort", "speed")
    )


def test_compare_keeps_order_of_given_runs(compare: Any) -> None:
    assert list(_rows(compare, f"runs/{SECOND}/", FIRST)) == [SECOND, FIRST]


@pytest.mark.parametrize("name", ["runs/other", "missing"])
def test_compare_of_missing_run_is_an_error(runs: Path, compare: Any, name: str) -> None:
    (runs / "other").mkdir()
    assert compare(name).endswith(f"Given: {name}\n")
    assert list(_rows(compare)) == [FIRST, SECOND]


@pytest.mark.parametrize("exists", [True, False])
def test_compare_without_runs_prints_one_line(runs: Path, compare: Any, exists: bool) -> None:
    shutil.rmtree(runs)
    if exists:
        runs.mkdir()
    assert compare() == "no runs in runs\n"
    assert compare("--format", "json") == "[]\n"


def test_html_page_contains_curves_of_all_runs(runs: Path, compare: Any) -> None:
    (runs / "early <b>").mkdir()
    (runs / "early <b>" / "log.txt").touch()
    compare("--html", "curves.html")
    page = (runs.parent / "curves.html").read_text()
    fields = ("seed", "optimizer", "learning_rate")
    titles = ["Training loss", "Validation loss", *(f"Validation loss by {field}" for field in fields)]
    assert re.findall(r"<h3>(.*?)</h3>", page) == titles
    assert page.count("<svg ") == len(titles)
    assert "early &lt;b&gt;" in page
    colors = re.findall(r'class="swatch" style="background:(#\w+)"></span>([^<]*)', page)
    assert [name.strip() for _, name in colors] == [FIRST, SECOND, "early &lt;b&gt;"]
    # The color of a run is that of its line in both plots, and of its mark in those of the fields.
    assert [page.count(f"stroke: {color}") for color, _ in colors] == [2, 2, 0]
    assert [page.count(f'style="fill: {color}') for color, _ in colors] == [3, 3, 0]


def _named(page: Path) -> list[str]:
    """Return the names of the runs of a page, in order, with their marks."""
    cells = re.findall(r"<tr[^>]*><td[^>]*>(.*?)</td>", page.read_text())
    return [re.sub(r"<[^>]*>", " ", cell).strip() for cell in cells]


def test_html_page_has_marked_best_run_first_with_report(runs: Path, compare: Any) -> None:
    for name, loss in ((FIRST, 0.4), (SECOND, 0.3)):
        metrics = json.loads((runs / name / "evaluate" / "metrics").read_text())
        (runs / name / "evaluate" / "metrics").write_text(json.dumps({**metrics, "val_loss": loss}))
    (runs / SECOND / "evaluate" / "report.html").write_text("report")
    compare("--html", "pages/a.html")
    page = runs.parent / "pages" / "a.html"
    assert [name.split() for name in _named(page)] == [[SECOND, "best"], [FIRST]]
    (link,) = re.findall(r'<a href="([^"]*)">', page.read_text())
    assert (page.parent / link).read_text() == "report"
    # A given order is kept.
    compare("--sort", "seed", "--html", "pages/a.html")
    assert [name.split() for name in _named(page)] == [[FIRST], [SECOND, "best"]]


def test_html_page_of_more_than_ten_runs_colors_the_best(runs: Path, compare: Any) -> None:
    shutil.rmtree(runs)
    for number in range(12):
        folder = run_folder(runs, f"run-{number}", {"seed": number}, 0.5)
        metrics = {"mse": 0.5, "val_loss": abs(number - 6.1)}
        (folder / "evaluate" / "metrics").write_text(json.dumps(metrics))
    compare("--html", "a.html")
    page = (runs.parent / "a.html").read_text()
    colors = re.findall(r'class="swatch" style="background:(#\w+)"', page)
    assert len(set(colors[:10])) == 10
    assert len(set(colors[10:])) == 1
    assert colors[11] not in colors[:10]
    assert _named(runs.parent / "a.html")[0].split() == ["run-6", "best"]


def test_html_page_that_cannot_be_written_is_an_error(compare: Any) -> None:
    assert compare("--html", "runs").startswith("error: output: cannot be written (")


def test_compare_does_not_import_tensorflow() -> None:
    program = "import sys; import qcnn.results.report, qcnn.cli.compare; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"tensorflow", "tf_keras", "cirq"} & set(loaded)
