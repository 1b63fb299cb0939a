"""What was measured of a machine is found again, and only there."""

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


def test_what_was_kept_is_found_with_its_day() -> None:
    assert load() is None
    kept = keep(MACHINE)
    assert load() == kept
    assert kept.machine == MACHINE
    assert kept.day == datetime.date.today().isoformat()


def test_a_file_that_is_deleted_is_measured_again(cache: Path) -> None:
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
def test_a_damaged_file_is_measured_again(cache: Path, damage: Callable[[str], str]) -> None:
    path = keep(MACHINE).path
    assert path
    path.write_text(damage(path.read_text()))
    assert load() is None
    # And replaced.
    keep(MACHINE)
    assert load()


@pytest.mark.parametrize(
    ("what", "value"),
    [("processor", lambda: "another"), ("_MEASUREMENT", 0)],
)
def test_another_machine_is_measured_for_itself(what: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    here = keep(MACHINE)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machine_cache, what, value)
        assert load() is None
        assert keep(MACHINE).path != here.path
    # Machines that share a home do not take each other's place.
    assert load() == here


def _slower(times: float) -> MachineProfile:
    speed = MACHINE.speed
    slow = MachineSpeed(
        speed.flops / times, speed.traffic / times, speed.few_flops / times, speed.kernel_seconds * times
    )
    return MachineProfile(slow, MACHINE.call_seconds * times, MACHINE.sample_seconds * times, MACHINE.cores)


@pytest.mark.parametrize(
    ("slower", "before", "probes", "found", "spread", "busy"),
    [
        # Two moments that are alike are enough, and the faster one counts.
        ([1.1, 1.0], [], 2, 1.0, 0.1, False),
        # Busy at first: measured until two moments are alike.
        ([3.0, 1.0, 1.1], [], 3, 1.0, 0.1, False),
        # Never alike.
        ([3.0, 1.0, 1.5], [], 3, 1.0, 0.5, True),
        # As fast as it was once.
        ([2.0, 1.1], [1.0], 2, 1.0, 0.1, False),
        ([2.0, 2.0, 2.0], [1.0], 3, 1.0, 1.0, True),
    ],
)
def test_a_busy_machine_is_measured_again_and_the_fastest_is_kept(
    slower: list[float], before: list[float], probes: int, found: float, spread: float, busy: bool
) -> None:
    moments = iter(slower)
    kept = keep_fastest(lambda: _slower(next(moments)), [_slower(times) for times in before])
    assert len(list(moments)) == len(slower) - probes
    assert kept.machine.speed.flops == pytest.approx(_slower(found).speed.flops)
    assert kept.machine.sample_seconds == pytest.approx(_slower(found).sample_seconds)
    assert kept.spread == pytest.approx(spread)
    assert load() == kept
    assert kept.was_busy == busy


def test_what_was_measured_on_a_busy_day_is_due_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, idle = keep(MACHINE, 0.5), keep(MACHINE, 0.1)
    assert not busy.is_due
    monkeypatch.setattr(machine_cache, "_today", lambda: "2031-05-06")
    assert busy.is_due
    assert not idle.is_due


def test_other_cores_are_another_machine() -> None:
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


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load() is None
    kept = keep(MACHINE)
    assert kept.path is None
    assert kept.machine == MACHINE


@pytest.mark.parametrize("value", [None, "", "not/absolute"])
def test_without_a_folder_of_its_own_it_is_the_homes(
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
