"""Progress display of training in terminals of any width."""

import io

import pytest
from rich.console import Console

from qcnn.components.steps.train_progress import ProgressTable

WORKERS = [f"worker {number}: initialization {number + 1} of 4" for number in range(4)]


def _displayed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    table = ProgressTable(console)
    for worker in WORKERS:
        process, state = worker.split(": ")
        table.take({"event": "state", "process": process, "state": state})
    losses = {"train_loss": 0.12345, "val_loss": 0.5}
    table.take({"event": "epoch", "epoch": 12, "epochs": 1280, "samples_per_second": 1234567.8, **losses})
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_progress_in_any_terminal_shows_all_values(width: int) -> None:
    lines = _displayed(width)
    assert max(map(len, lines)) <= width
    for part in ("epoch 12/1280", "loss 0.1235", "val_loss 0.5000", "1234568 samples/s", "-:--:--", *WORKERS):
        assert any(part in line for line in lines), part
    assert not any("…" in line for line in lines)


def test_progress_in_wide_terminal_has_two_lines() -> None:
    first, second = _displayed(200)
    assert "val_loss" in first
    assert WORKERS[3] in second
