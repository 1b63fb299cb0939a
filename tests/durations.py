"""Recorded durations of tests, which select the tests of `make test` and order the files of a run.

`make test-durations` writes the record. A test without a record counts as fast.
"""

import importlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.forks import MODULES

RECORD = Path(__file__).with_name("durations.json")
SLOW_SECONDS = 1.0
# Shorter tests are not recorded.
_MIN_SECONDS = 0.2
# Seconds by file and test.
Durations = dict[str, dict[str, float]]


def split(test: str) -> tuple[str, str]:
    """Return the file of a test ID and the name of the test in this file."""
    file, _, name = test.partition("::")
    return file, name


def seconds(durations: Durations, test: str) -> float:
    """Return the recorded duration of a test, or 0 if it has no record."""
    file, name = split(test)
    return durations.get(file, {}).get(name, 0.0)


def longest_first(durations: Durations, tests: Iterable[str]) -> dict[str, int]:
    """Return the positions of the files of tests in an order in which parallel processes end at about the same time."""
    totals: dict[str, float] = {}
    for test in tests:
        file, _ = split(test)
        totals[file] = totals.get(file, 0.0) + seconds(durations, test)
    return {file: position for position, file in enumerate(sorted(totals, key=lambda file: -totals[file]))}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("durations")
    group.addoption("--fast", action="store_true", help=f"skip tests above {SLOW_SECONDS:g} s in {RECORD.name}")
    group.addoption("--record", action="store_true", help=f"write the durations of the tests to {RECORD.name}")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--record"):
        return
    if hasattr(config, "workerinput"):
        # Otherwise the first test that uses a library would be recorded with the time of its import.
        for name in MODULES:
            importlib.import_module(name)
    else:
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove slow tests if only fast ones are selected, and sort the files. The order within a file is kept."""
    durations: Durations = json.loads(RECORD.read_text())
    if config.getoption("--fast"):
        is_slow = [seconds(durations, item.nodeid) > SLOW_SECONDS for item in items]
        config.hook.pytest_deselected(items=list(itertools.compress(items, is_slow)))
        items[:] = [item for item, slow in zip(items, is_slow, strict=True) if not slow]
    positions = longest_first(durations, (item.nodeid for item in items))
    items.sort(key=lambda item: positions[split(item.nodeid)[0]])


class Recorder:
    """Plugin that records the durations of the tests of a run, in the process that distributes them."""

    def __init__(self) -> None:
        self._durations: Durations = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test without its fixtures, because the first test that uses a shared fixture sets it up."""
        if report.when == "call" and report.duration >= _MIN_SECONDS:
            file, name = split(report.nodeid)
            self._durations[file][name] = round(report.duration, 1)

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        RECORD.write_text(json.dumps(self._durations, indent=0, sort_keys=True) + "\n")
