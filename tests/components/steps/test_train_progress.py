"""Progress display of training in terminals of any width."""

import io
import re

import pytest
from rich.console import Console

from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress

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


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """Return the lines that the terminal shows, after the movements of the cursor and erased lines."""
        lines, row = [""], 0
        for part in re.split(r"(\x1b\[\??[0-9;]*[A-Za-z]|\n|\r)", self.getvalue()):
            if part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif move := re.fullmatch(r"\x1b\[(\d*)A", part):
                row -= int(move[1] or 1)
            elif part == "\x1b[2K":
                lines[row] = ""
            elif part and part[0] not in "\x1b\r":
                lines[row] += part
        return [line.rstrip() for line in lines if line.strip()]


def _epoch(progress: TrainingProgress, epoch: int, loss: float) -> None:
    losses = {"train_loss": loss, "val_loss": loss}
    progress.handle({"event": "epoch", "epoch": epoch, "epochs": 9, "samples_per_second": 1.0, **losses})


def test_runs_at_once_share_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    terminal = _Terminal()
    first, second = TrainingProgress(terminal), TrainingProgress(terminal)
    for epoch in (1, 2, 3):
        _epoch(first, epoch, 0.1)
        _epoch(second, epoch + 1, 0.2)
    assert ["epoch 3/9" in line for line in terminal.screen()] == [True, False]
    assert ["epoch 4/9" in line for line in terminal.screen()] == [False, True]
    first.close()
    second.show("a line")
    _epoch(second, 9, 0.2)
    third = TrainingProgress(terminal)
    _epoch(third, 1, 0.3)
    second.close()
    _epoch(third, 8, 0.3)
    third.close()
    found = terminal.screen()
    for line, part in zip(found, ("epoch 3/9", "a line", "epoch 9/9", "epoch 8/9"), strict=True):
        assert part in line
