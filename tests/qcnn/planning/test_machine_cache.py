"""Cache of machine profiles."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qcnn.planning import machine_cache
from qcnn.planning.machine import MachineProfile
from qcnn.planning.machine_cache import keep, keep_fastest, load
from qcnn.simulators.costs.cost import MachineSpeed

MACHINE = MachineProfile(
    MachineSpeed(flops=1.5e10, traffic=2.5e9, few_flops=3.5e9, kernel_seconds=1e-7),
    call_seconds=1e-3,
    sample_seconds=1e-7,
    cores=2,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "qcnn"


def test_load_returns_kept_profile_with_date() -> None:
    assert load() is None
    kept = keep(MACHINE)
    assert load() == kept
    assert kept.machine == MACHINE
    assert kept.day == datetime.date.today().isoformat()


def test_load_deleted_file_returns_none(cache: Path) -> None:
    (path,) = [keep(MACHINE).path]
    assert path
    assert path.parent == cache
    path.unlink()
    assert load() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:100],
        lambda text: text.replace("0.001", "0.002"),
        lambda text: "\0" * len(text),
        lambda text: '{"schema_version": 1, "key": 3}',
    ],
    ids=["empty", "cut", "changed", "zeros", "another"],
)
def test_load_damaged_file_returns_none(cache: Path, damage: Callable[[str], str]) -> None:
    path = keep(MACHINE).path
    assert path
    path.write_text(damage(path.read_text()))
    assert load() is None
    # `keep` replaces the damaged file.
    keep(MACHINE)
    assert load()


@pytest.mark.parametrize(
    ("what", "value"),
    [("processor", lambda: "another"), ("_MEASUREMENT", 0)],
)
def test_load_other_machine_returns_none(what: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    local = keep(MACHINE)
    with monkeypatch.context() as other:
        other.setattr(machine_cache, what, value)
        assert load() is None
        assert keep(MACHINE).path != local.path
    # Machines that share a home folder have separate files.
    assert load() == local


def _slower(times: float) -> MachineProfile:
    speed = MACHINE.speed
    slow = MachineSpeed(
        speed.flops / times, speed.traffic / times, speed.few_flops / times, speed.kernel_seconds * times
    )
    return MachineProfile(slow, MACHINE.call_seconds * times, MACHINE.sample_seconds * times, MACHINE.cores)


@pytest.mark.parametrize(
    ("slower", "before", "benchmarks", "best", "spread", "busy"),
    [
        # Two results that agree are enough, and the faster one is used.
        ([1.1, 1.0], [], 2, 1.0, 0.1, False),
        # Busy at first: measured until two results agree.
        ([3.0, 1.0, 1.1], [], 3, 1.0, 0.1, False),
        # No results agree.
        ([3.0, 1.0, 1.5], [], 3, 1.0, 0.5, True),
        # The cached profile agrees with the second result.
        ([2.0, 1.1], [1.0], 2, 1.0, 0.1, False),
        ([2.0, 2.0, 2.0], [1.0], 3, 1.0, 1.0, True),
    ],
)
def test_keep_fastest_repeats_until_results_agree(
    slower: list[float], before: list[float], benchmarks: int, best: float, spread: float, busy: bool
) -> None:
    results = iter(slower)
    kept = keep_fastest(lambda: _slower(next(results)), [_slower(times) for times in before])
    assert len(list(results)) == len(slower) - benchmarks
    assert kept.machine.speed.flops == pytest.approx(_slower(best).speed.flops)
    assert kept.machine.sample_seconds == pytest.approx(_slower(best).sample_seconds)
    assert kept.spread == pytest.approx(spread)
    assert load() == kept
    assert kept.was_busy == busy


def test_is_due_after_busy_day(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, idle = keep(MACHINE, 0.5), keep(MACHINE, 0.1)
    assert not busy.is_due
    monkeypatch.setattr(machine_cache, "_today", lambda: "2031-05-06")
    assert busy.is_due
    assert not idle.is_due


def test_load_other_core_count_returns_none() -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) == 1:
        pytest.skip("needs two cores")
    keep(MACHINE)
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert load() is None
    finally:
        os.sched_setaffinity(0, cores)
    assert load()


def test_keep_unwritable_folder_has_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load() is None
    kept = keep(MACHINE)
    assert kept.path is None
    assert kept.machine == MACHINE


@pytest.mark.parametrize("value", [None, "", "not/absolute"])
def test_keep_without_cache_home_uses_home_folder(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    path = keep(MACHINE).path
    assert path
    assert path.parent == tmp_path / "home" / ".cache" / "qcnn"
