"""Tests of the examples in docs/extend.md."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import compile as compile_command
import qcnn
from qcnn import data, plugins
from qcnn.circuits import circuits
from qcnn.experiment.parsing import from_mapping
from qcnn.model.batches import shard
from qcnn.model.network import build_model
from qcnn.model.optimizer import build_optimizer, values_of
from qcnn.model.steps import training_epoch
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.machine_cache import keep
from qcnn.simulators.structure.gates import read_network
from qcnn.storage.copies import download
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import FolderUploader, open_store
from qcnn.targets import TARGETS
from qcnn.trainer.distribution.parameter_servers import SharedWeights
from qcnn.trainer.loop import train
from qcnn.yaml_files import as_yaml
from tests.docs.documents import ROOT, example
from tests.plugin_packages import install
from tests.qcnn.cli.conftest import Typed
from tests.shared_training_runs import SMALL


def _run_as_module(title: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Run the example with this title as a module."""
    module = types.ModuleType(Path(title).stem)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(example(title), title, "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a copy of the package, extended by the strategy of the page, and with the plug-ins of the page."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "qcnn", folder / "qcnn")
    _insert(
        folder / "qcnn" / "experiment" / "requirements.py",
        '    "none": StrategyRequirements(),\n',
        '    "one_device": StrategyRequirements(),\n',
    )
    strategies = folder / "qcnn" / "trainer" / "distribution" / "strategies.py"
    _insert(
        strategies, "    return tf.distribute.get_strategy()\n", "\n\n" + example("trainer/distribution/strategies.py")
    )
    _insert(strategies, '    "none": _none,\n', '    "one_device": one_device,\n')
    project = tomllib.loads(example("pyproject.toml", "toml"))["project"]
    titles = ("qcnn_plain/costs.py", "qcnn_plain/simulator.py", "test_plain.py", "qcnn_shared.py")
    points = {
        group: "\n".join(f"{name} = {value}" for name, value in each.items())
        for group, each in project["entry-points"].items()
    }
    points[plugins.STORES] = "shared = qcnn_shared:SharedStore"
    install(folder, {title: example(title) for title in titles}, points, (project["name"], project["version"]))
    (folder / "test_shared.py").write_text(_TEST_OF_STORE)
    return folder


_TEST_OF_STORE = """
import pytest

from qcnn.testing.stores import StoreContract


class TestShared(StoreContract):
    @pytest.fixture
    def bucket(self, tmp_path):
        return f"shared:/{tmp_path}/bucket"
"""


def _insert(path: Path, after: str, text: str) -> None:
    content = path.read_text()
    assert content.count(after) == 1
    path.write_text(content.replace(after, after + text))


def _run_extended(extended: Path, module: str, *arguments: str) -> str:
    """Run a module with the extended package in a folder with a small experiment, and return its output."""
    work = extended / "work"
    work.mkdir(exist_ok=True)
    (work / "small.yaml").write_text(as_yaml(SMALL))
    environment = {
        **os.environ,
        "PYTHONPATH": str(extended),
        # Warnings of pytest plugins that happen to be installed are not those of the extended package.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_custom_circuit_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    _run_as_module("my_circuits.py", monkeypatch)
    ansatz = circuits.build("my_circuits:ladder", 5)
    assert (len(ansatz.symbols), len(ansatz.readouts)) == (10, 2)
    assert read_network(ansatz, circuits.ring(5)).readouts == (3, 4)


def test_custom_strategy_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    config = from_mapping({**SMALL, "simulator": "statevector"})
    samples = data.generate(config).train
    strategy = _run_as_module("trainer/distribution/strategies.py", monkeypatch).one_device(config, None)
    with strategy.scope():
        model, optimizer = build_model(config), build_optimizer(config, updates=1)
        optimizer.build(model.trainable_variables)
    first = samples.take(np.arange(config.batch_size))
    loss = np.mean((model(dict(first.inputs)).numpy()[:, 0] - first.label) ** 2)
    measures = training_epoch(strategy, model, optimizer)(shard(samples, config.batch_size, 1))
    # Each step measures the loss before its update.
    assert measures[0, 0] == pytest.approx(loss)
    assert np.mean((model(dict(first.inputs)).numpy()[:, 0] - first.label) ** 2) < loss


def test_simulator_of_plugin_and_registered_strategy_train(extended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The simulator applies each gate separately. The circuit of the page has few, and compiles in less time than ours.
    model = ("--model", "my_circuits:ladder")
    (extended / "my_circuits.py").write_text(example("my_circuits.py"))
    words = ("--config", "small.yaml", *model, "--simulator", "plain", "--strategy", "one_device")
    run = json.loads(_run_extended(extended, "qcnn.cli", "run", *words, "--format", "json"))
    _run_as_module("my_circuits.py", monkeypatch)
    known = from_mapping({**SMALL, "model": model[1], "simulator": "statevector"})
    expected = train(known, data.generate(known), extended / "known")[-1].train_loss
    assert run["metrics"]["train_loss"] == pytest.approx(expected, rel=1e-8)
    with (Path(run["artifacts"]["model"]) / "model.json").open() as description:
        provenance = json.load(description)["provenance"]
    assert (provenance["simulator"], provenance["plugins"]) == ("plain", "qcnn-plain 0.1")


def test_simulator_of_plugin_is_planned(extended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Skip the benchmark of the machine, which takes seconds.
    monkeypatch.setenv("XDG_CACHE_HOME", str(extended / "cache"))
    keep(NOMINAL_MACHINE)
    words = ("--config", "small.yaml", "--simulator", "plain", "--strategy", "multi_worker", "--workers", "2")
    plan = json.loads(_run_extended(extended, "qcnn.cli", "plan", *words, "--format", "json"))
    assert plan["simulator"] == list(plan["simulators"])[-1] == "plain"
    assert plan["processes"] == 2


def test_custom_model_trains_on_parameter_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = _run_as_module("mean.py", monkeypatch).Mean()
    shared = SharedWeights(["/device:CPU:0"], 1, mean.clone_optimizer)
    shared.push(values_of(mean.weights), values_of(mean.optimizer.variables))
    batch = {"y": tf.constant([1.0, 2.0, 6.0], tf.float64)}
    assert mean.compiles(batch)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        weights, version = shared.read()
        gradient, loss = tf.split(mean.gradient([weights], **batch), [1, 1])
        shared.update(gradient, version)
        return loss

    losses = [float(step()[0]) for _ in range(2)]
    shared.pull(mean.weights, mean.optimizer.variables)
    # The gradient is twice the distance to the mean, and the learning rate is 0.5.
    assert float(mean.weights[0][0]) == pytest.approx(3.0)
    assert losses == pytest.approx([41 / 3, 14 / 3])


@pytest.mark.parametrize(
    ("file", "selected", "passed"),
    [
        ("test_plain.py", "declared or memory or rx-deep-5 or state-deep-5 or cones or shift", 7),
        ("test_shared.py", "", 9),
    ],
)
def test_plugin_passes_its_contract(extended: Path, file: str, selected: str, passed: int) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(extended), "-k", selected)
    output = _run_extended(extended, "pytest", str(extended / file), *options)
    assert f"\n{passed} passed" in output


def test_store_of_plugin_mirrors_a_folder(extended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(extended)
    uri = parse_bucket_uri(f"shared:/{tmp_path}/runs/1")
    assert uri
    store = open_store(uri)
    folder = tmp_path / "training"
    (folder / "checkpoints").mkdir(parents=True)
    with contextlib.closing(FolderUploader(folder, store, 60.0)) as mirror:
        (folder / "checkpoints" / "epoch-000001.npz").write_bytes(b"1")
        mirror.flush()
        (folder / "history.csv").write_bytes(b"2")
        (folder / "checkpoints" / "epoch-000001.npz").unlink()
        mirror.flush()
    assert store.names() == list(store.versions()) == ["history.csv"]
    download(store, tmp_path / "copy")
    assert (tmp_path / "copy" / "history.csv").read_bytes() == b"2"


def _register_target(title: str, class_name: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register an example as a target."""
    module = _run_as_module(title, monkeypatch)
    monkeypatch.setitem(sys.modules, f"qcnn_target_{class_name}", module)
    monkeypatch.setitem(TARGETS, name, f"qcnn_target_{class_name}:{class_name}")


def test_custom_target_submits_and_checks_cost_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    _register_target("qcnn/targets/slurm/target.py", "SlurmTarget", "slurm", monkeypatch)
    where = ("submit", "--target", "slurm", "--partition", "night", "--runs", str(tmp_path))
    code, out, err = typed(*where, "--qubits", "5", "--dry-run")
    assert (code, err) == (0, "")
    request = json.loads(out)
    assert request["command"][2] == "--partition=night"
    assert '"qubits": 5' in request["script"]
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f"#!/bin/sh\ncat > {tmp_path}/script\necho 17\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent), prepend=":")
    monkeypatch.setenv("SBATCH_PARTITION", "day")
    code, out, err = typed("submit", "--target", "slurm", "--runs", str(tmp_path), "--qubits", "5")
    assert (code, out.splitlines()[0]) == (0, "batch job 17 is created in partition day"), err
    assert (tmp_path / "script").read_text().splitlines()[2] == from_mapping({"qubits": 5}).to_json()
    monkeypatch.setenv("QCNN_COST_LIMIT", "0")
    code, _, err = typed("submit", "--target", "slurm", "--runs", str(tmp_path), "--qubits", "5")
    assert code == 2
    assert "cost_limit: must be at least the estimated cost, " in err
    assert typed("submit", "--target", "slurm")[2] == "error: runs: must be given to target slurm. Given: none\n"
    experiment = qcnn.Experiment(qubits=5)
    # Type checkers know only the settings of our targets.
    connection: dict[str, Any] = {"target": "slurm", "partition": "night"}
    settings: dict[str, Any] = {**connection, "runs": str(tmp_path)}
    assert qcnn.submit(experiment, **settings).name == "17"
    with pytest.raises(
        qcnn.ConfigError,
        match=r"^target: must be one of local, kubeflow, kubernetes, tfjob, trainjob, vertex, vertex-job, or ",
    ):
        qcnn.list_jobs(**connection)


def test_custom_pipeline_target_trains_in_step_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    _register_target("qcnn/targets/one_pod/target.py", "OnePodTarget", "one-pod", monkeypatch)
    assert CliRunner().invoke(compile_command.main, ["--output", str(tmp_path), "--image", "qcnn:1"]).exit_code == 0
    assert {path.name for path in tmp_path.glob("*-one-pod.yaml")} == {"qcnn-one-pod.yaml", "study-one-pod.yaml"}
    code, out, err = typed(
        "submit", "--target", "one-pod", "--host", "http://localhost:1", "--image", "qcnn:1", "--dry-run"
    )
    assert code == 0, err
    steps = json.loads(out)["pipeline_spec"]["deploymentSpec"]["executors"]
    assert "qcnn.components.steps.train_local" in steps["exec-train"]["container"]["command"][-1]
