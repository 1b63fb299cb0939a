"""Reports, and pages of studies, in a real browser, in a sandboxed iframe as in the Kubeflow UI."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from qcnn.experiment.parsing import from_mapping
from qcnn.results import plots
from qcnn.studies.record import table_page
from qcnn.studies.trials import FailedTrial, Trial
from tests.qcnn.studies.test_trials import a_trial
from tests.trainer.synthetic_report import report

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on the PATH")

DESKTOP, PHONE, HEIGHT = 1280, 390, 4000
# The test inserts this script into a copy of the page, before the Content-Security-Policy, which would block it.
PROBE = """<head><script>
addEventListener("securitypolicyviolation", event => parent.postMessage({refused: event.blockedURI}, "*"));
addEventListener("load", () => {
  const root = document.documentElement;
  const figures = [...document.querySelectorAll("figure")].map(figure => {
    const box = figure.querySelector("svg").getBoundingClientRect();
    const texts = [...figure.querySelectorAll("text")].map(text => text.getBoundingClientRect());
    return {
      title: figure.querySelector("h3").textContent,
      width: box.width,
      height: box.height,
      textHeight: Math.min(...texts.map(text => text.height)),
      textInside: texts.every(text => text.left >= box.left - 1 && text.right <= box.right + 1),
    };
  });
  const broken = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/(?<![A-Za-z0-9])[A-Za-z0-9]{1,30}(?![A-Za-z0-9])/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(part => part.top)).size > 1) broken.push(word[0]);
    }
  }
  parent.postMessage({width: root.clientWidth, needed: root.scrollWidth, figures, broken}, "*");
});
</script>"""
# Clicks on columns and posts the order of the rows after each click.
CLICKS = """<head><script>
addEventListener("securitypolicyviolation", event => parent.postMessage({refused: event.blockedURI}, "*"));
addEventListener("load", () => {
  const root = document.documentElement;
  const order = () => [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].innerText.split(/\\s/)[0]);
  const heads = [...document.querySelectorAll("th")];
  const orders = [order()];
  for (const name of %s) {
    const head = heads.find(head => head.textContent === name);
    head.querySelector("button").click();
    orders.push([head.getAttribute("aria-sort"), ...order()]);
  }
  const mark = document.querySelector(".mark").getBoundingClientRect();
  parent.postMessage({width: root.clientWidth, needed: root.scrollWidth, orders, markEnds: mark.right}, "*");
});
</script>"""
WRAPPER = """<!DOCTYPE html><body style="margin:0">
<pre></pre><script>
const messages = [];
addEventListener("message", event => {{
  messages.push(event.data);
  document.querySelector("pre").textContent = JSON.stringify(messages);
}});
</script>
<iframe sandbox="{allowed}" src="report.html" style="border:0; width:{width}px; height:{height}px"></iframe>"""


def _open(folder: Path, page: str, width: int, action: str, allowed: str = "") -> str:
    """Run a browser action on the page in an iframe of the given width, and return its output."""
    (folder / "report.html").write_text(page)
    (folder / "wrapper.html").write_text(WRAPPER.format(allowed=allowed, width=width, height=HEIGHT))
    features = ("quic", "background-networking", "component-update", "sync", "gpu")
    command = ["chromium", "--headless", "--no-sandbox", "--no-first-run", "--hide-scrollbars"]
    command += [f"--disable-{name}" for name in features]
    # The iframe must be in the process of the wrapper: the browser's virtual clock stops while a page loads, but does
    # not wait for pages of other processes.
    command += ["--disable-features=IsolateSandboxedIframes", "--disable-site-isolation-trials"]
    command += ["--virtual-time-budget=10000", f"--window-size={width},{HEIGHT}", f"--user-data-dir={folder / 'user'}"]
    command += [action, (folder / "wrapper.html").as_uri()]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return finished.stdout


def _measure(folder: Path, page: str, width: int, probe: str = PROBE) -> dict[str, Any]:
    dom = _open(folder, page.replace("<head>", probe, 1), width, "--dump-dom", allowed="allow-scripts")
    (text,) = re.findall(r"<pre>(.*?)</pre>", dom, re.DOTALL)
    (measured,) = json.loads(html.unescape(text))
    return dict(measured)


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize(("qubits", "epochs"), [(8, 1), (1024, 5000)])
def test_report_in_browser_has_all_figures_and_fits(tmp_path: Path, width: int, qubits: int, epochs: int) -> None:
    digests = {"image": f"registry.example/team/qcnn@sha256:{64 * '0'}", "lock": 64 * "f"}
    words = {"strategy": "parameter_server", "model": "my_own_circuits:a_circuit_with_a_name_of_many_words"}
    measured = _measure(tmp_path, report(qubits, 3, epochs, {"provenance": digests}, **words), width)
    assert measured["width"] == width
    assert measured["needed"] <= width
    assert measured["broken"] == []
    assert [figure["title"] for figure in measured["figures"]] == [
        "Loss",
        "Prediction against angle",
        "Error by qubit",
        "Error and lower bound",
    ]
    for figure in measured["figures"]:
        assert figure["width"] > 300
        assert 0.5 < figure["height"] / figure["width"] < 0.9
        assert figure["textHeight"] >= 9
        assert figure["textInside"]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_report_in_browser_renders_in_full_sandbox(tmp_path: Path, width: int) -> None:
    picture = tmp_path / "picture.png"
    _open(tmp_path, report(1024, 3, 50), width, f"--screenshot={picture}")
    pixels = np.round(imread(picture)[:, :, :3] * 255).astype(np.uint8)
    assert pixels.shape[:2] == (HEIGHT, width)
    for color in (plots.TRAIN, plots.VALIDATION, plots.TEST):
        bars = (pixels == np.array(list(bytes.fromhex(color[1:])), np.uint8)).all(axis=2)
        assert bars.sum() > 2000, color


def _study() -> str:
    trials: list[Trial | FailedTrial] = [
        a_trial(0.3, learning_rate=0.01, model="hybrid"),
        FailedTrial(from_mapping({"learning_rate": 0.1, "model": "deep"}), "loss: must be finite. " * 5),
        a_trial(0.2, learning_rate=0.002, model="deep"),
        a_trial(0.25, learning_rate=0.05, model="hybrid"),
    ]
    return table_page(trials, "report.html")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_study_page_in_browser_sorts_by_clicked_column(tmp_path: Path, width: int) -> None:
    names = ["learning_rate", "learning_rate", "val_loss", "model", "failure"]
    measured = _measure(tmp_path, _study(), width, CLICKS % json.dumps(names))
    assert measured["width"] == width
    assert measured["needed"] <= width
    assert measured["markEnds"] < width / 2
    assert measured["orders"] == [
        ["2", "3", "0", "1"],
        ["ascending", "2", "0", "3", "1"],
        ["descending", "1", "3", "0", "2"],
        # A missing value is last.
        ["ascending", "2", "3", "0", "1"],
        ["ascending", "2", "1", "3", "0"],
        ["ascending", "1", "2", "3", "0"],
    ]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_study_page_in_browser_is_readable_without_script(tmp_path: Path, width: int) -> None:
    picture = tmp_path / "picture.png"
    _open(tmp_path, _study(), width, f"--screenshot={picture}")
    pixels = np.round(imread(picture)[:, :, :3] * 255).astype(np.uint8)
    for color in plots.DISTINCT[:3]:
        found = (pixels == np.array(list(bytes.fromhex(color[1:])), np.uint8)).all(axis=2)
        # The swatch in the table and the marks in two plots.
        assert found[:400].sum() > 80
        assert found[400:].sum() > 20
