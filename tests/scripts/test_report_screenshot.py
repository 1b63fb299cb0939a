"""Tests of scripts/report_screenshot.py."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.trainer.synthetic_report import report

SCRIPT = Path(__file__).parents[2] / "scripts" / "report_screenshot.py"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on the PATH")
def test_draw_saves_screenshot_of_report(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(report())
    script = runpy.run_path(str(SCRIPT))
    script["draw"](tmp_path / "report.html", tmp_path / "report.png")
    pixels = imread(tmp_path / "report.png")
    assert pixels.shape[1::-1] == script["_SIZE"]
    # Curves and text, not an empty page.
    assert pixels.std() > 0.05


@pytest.mark.parametrize("arguments", [[], ["runs/none"], ["one", "two"]])
def test_script_without_finished_run_is_an_error(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    given = " ".join(arguments) or "none"
    assert done.stderr == f"picture: requires the folder of one finished run. Given: {given}\n"


def test_draw_without_browser_names_install_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.html").write_text(report())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"scripts/install-browser"):
        runpy.run_path(str(SCRIPT))["draw"](tmp_path / "report.html", tmp_path / "report.png")
