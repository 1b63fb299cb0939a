"""Simulators, stores and targets of other packages."""

import subprocess
import sys
from pathlib import Path

import pytest

from qcnn import plugins
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.provenance import provenance
from qcnn.simulators import SimulatorLimits, registry
from qcnn.simulators.structure.gates import read_model
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets import target_class
from qcnn.targets.base import Submits, Target
from tests.plugin_packages import install

LIMITS = SimulatorLimits(memory=2**30, batch=4)
_COSTS = """
from qcnn.simulators.costs.cost import StepCost
from qcnn.simulators.interface import Declaration

DECLARATION = Declaration("{module}")

def estimate(network, limits):
    return StepCost(flops=1.0)

def check(network, limits):
    pass
"""
_STORE = """
import shutil

class Copies:
    def __init__(self, uri):
        self._folder = f"/{uri.bucket}/{uri.folder}"

    def names(self):
        return ["file"]

    def read(self, name, path):
        shutil.copy(f"{self._folder}/{name}", path)

    def close(self):
        pass
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the search path, for installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_simulator_of_plugin_is_created_and_never_selected(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"extra_created.py": _COSTS.format(module="qcnn.simulators.lightcone")}
    install(site, files, {plugins.SIMULATORS: "extra = extra_created"})
    config = from_mapping({"simulator": "extra", "qubits": 4})
    _, network = read_model("hybrid", 4)
    estimates = registry.estimates(network, LIMITS, config.simulator)
    assert [each.simulator for each in estimates] == [*registry.SIMULATORS, "extra"]
    assert registry.cheapest(estimates, network, LIMITS).simulator in registry.SIMULATORS
    assert registry.create("extra", network, LIMITS).network is network
    assert provenance(config)["plugins"] == provenance(from_mapping({}), "extra")["plugins"] == "qcnn-extra 1.2"
    assert "plugins" not in provenance(from_mapping({}), "lightcone")


def test_plugin_does_not_replace_own_names(site: Path) -> None:
    names = {plugins.SIMULATORS: "lightcone", plugins.STORES: "s3", plugins.TARGETS: "local"}
    install(site, {}, {group: f"{name} = missing" for group, name in names.items()})
    assert set(plugins.installed(plugins.SIMULATORS)) == {"lightcone"}
    assert registry.load("lightcone").__name__ == "qcnn.simulators.lightcone"  # type: ignore[attr-defined]
    assert parse_bucket_uri("s3://bucket")
    assert target_class("local", Target).name == "local"


def test_unknown_names_list_plugins(site: Path) -> None:
    def messages() -> list[str]:
        found = []
        for function in (
            lambda: from_mapping({"simulator": "abacus"}),
            lambda: parse_bucket_uri("tape://a/b"),
            lambda: target_class("moon", Submits),
        ):
            with pytest.raises(ConfigError) as raised:
                function()
            found.append(str(raised.value))
        return found

    for given, expected in zip(("'abacus'", "tape://a/b", "'moon'"), messages(), strict=True):
        assert expected.endswith(f": none). Given: {given}")
    groups = (plugins.SIMULATORS, plugins.STORES, plugins.TARGETS)
    install(site, {}, dict.fromkeys(groups, "extra = missing"))
    # The search path has changed, so that installed packages are searched again.
    sys.path.append(str(site / "other"))
    for group, message in zip(groups, messages(), strict=True):
        assert f"a plug-in (entry points {group}: extra). Given: " in message


def test_plugin_that_cannot_be_imported_is_named_with_reason(site: Path) -> None:
    files = {
        "extra_broken.py": "import a_missing_library\n",
        "extra_half.py": _COSTS.format(module="extra_broken"),
    }
    groups = (plugins.STORES, plugins.TARGETS)
    simulators = "extra = extra_broken\nhalf = extra_half\nempty = extra_half:NOTHING"
    install(site, files, {plugins.SIMULATORS: simulators, **dict.fromkeys(groups, "extra = extra_broken:A")})
    missing = "(ModuleNotFoundError: No module named 'a_missing_library')"
    _, network = read_model("hybrid", 4)

    def open_file() -> None:
        with local_copy("extra://bucket/file"):
            pass

    for field, function, reason, name in (
        ("simulator", lambda: from_mapping({"simulator": "extra"}), missing, "extra"),
        ("simulator", lambda: registry.create("half", network, LIMITS), missing, "half"),
        ("simulator", lambda: from_mapping({"simulator": "empty"}), "(AttributeError: ", "empty"),
        ("uri", open_file, missing, "extra"),
        ("target", lambda: target_class("extra", Submits), missing, "extra"),
    ):
        with pytest.raises(ConfigError) as raised:
            function()
        message = str(raised.value)
        assert message.startswith(f"{field}: cannot be imported from package qcnn-extra 1.2 {reason}")
        assert message.endswith(f"Given: {name}")
        assert "\n" not in message


def test_store_of_plugin_is_read_and_recorded(site: Path, tmp_path: Path) -> None:
    install(site, {"extra_store.py": _STORE}, {plugins.STORES: "tape = extra_store:Copies"})
    (tmp_path / "file").write_bytes(b"text")
    with local_copy(f"tape:/{tmp_path}") as copy:
        assert (copy / "file").read_bytes() == b"text"
    config = from_mapping({"data": "tape://bucket/rows.csv", "max_samples": 100})
    assert provenance(config)["plugins"] == "qcnn-extra 1.2"


def test_target_of_plugin_is_found_by_its_protocols(site: Path) -> None:
    target = "from qcnn.targets.kubernetes.tfjob import TFJobTarget\n\nclass Mine(TFJobTarget):\n    name = 'mine'\n"
    install(site, {"extra_target.py": target}, {plugins.TARGETS: "mine = extra_target:Mine\nbare = builtins:object"})
    assert target_class("mine", Submits).name == "mine"
    with pytest.raises(ConfigError, match=r"^target: must be one of kubeflow, .*: bare, mine\)\. Given: 'bare'$"):
        target_class("bare", Submits)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["submit", "--target", "tfjob", "--help"]])
def test_help_does_not_search_installed_packages(arguments: list[str]) -> None:
    code = (
        "import importlib.metadata, sys\n"
        "importlib.metadata.entry_points = lambda group: sys.exit(group) if 'qcnn' in group else ()\n"
        f"sys.argv = ['qcnn', *{arguments}]\n"
        "from qcnn.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
