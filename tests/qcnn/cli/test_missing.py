"""Tests of commands and Python functions without the extras: each names the missing extra in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.artifact_io import save_description
from qcnn.experiment.parsing import from_mapping
from qcnn.process.installation import install_command

ROOT = Path(__file__).parents[3]
ON_VERTEX = "--project my-project --location us-central1"
SENT = f"{ON_VERTEX} --pipeline-root gs://bucket/runs --image registry/qcnn:1"
# Arguments of a command; its name in the message, the name of the library, the extra and the module.
TYPED = {
    "run --qubits 4": ("run", "Kubeflow's SDK", "run", "kfp"),
    "run --model my_circuits:ladder": ("run", "Kubeflow's SDK", "run", "kfp"),
    "study --grid seed=1,2": ("study", "Kubeflow's SDK", "run", "kfp"),
    "study --target kubeflow --grid seed=1,2": ("study --target kubeflow", "Kubeflow's SDK", "kubeflow", "kfp"),
    "plan": ("plan", "cirq", "run", "cirq"),
    "predict model --data a.csv --output b.csv": ("predict", "pyarrow", "run", "pyarrow"),
    "dataset digits --output a.csv": ("dataset", "scikit-learn", "run", "sklearn"),
    "dataset lines --output a.csv": ("dataset", "pyarrow", "run", "pyarrow"),
    "compare run --html page.html": ("compare", "matplotlib", "run", "matplotlib"),
    "compare --experiment x --host http://localhost:1": ("compare", "Kubeflow's SDK", "kubeflow", "kfp_server_api"),
    "tensorboard run": ("tensorboard", "TensorBoard", "run", "tensorboard"),
    "submit --target kubeflow": ("submit --target kubeflow", "Kubeflow's SDK", "kubeflow", "kfp"),
    f"submit --target=vertex {SENT}": ("submit --target vertex", "Kubeflow's SDK", "vertex", "kfp"),
    f"status --target vertex {ON_VERTEX}": (
        *("status --target vertex", "Google's libraries", "vertex", "google.api_core"),
    ),
    f"terminate --target vertex {ON_VERTEX} x": (
        *("terminate --target vertex", "Google's libraries", "vertex", "google.api_core"),
    ),
    "terminate --host http://localhost:1 x": ("terminate", "Kubeflow's SDK", "kubeflow", "kfp_server_api"),
}
CALLED = {
    "train": "qcnn.train(experiment, 'new')",
    "study": "qcnn.study(experiment, grid={'seed': [1, 2]}, folder='new')",
    "plan": "qcnn.plan(experiment)",
    "generate": "qcnn.generate(qcnn.Experiment(qubits=4, data='cluster_ising'))",
    "Experiment": "qcnn.Experiment(data='rows.csv')",
    "load": "qcnn.load('model')",
    "circuit": "qcnn.Experiment(model='circuit.qasm')",
    "dataset": "qcnn.dataset('moons')",
}
PROGRAM = """
import json, os, sys
from tests.minimal_environment import hide

hide()
import qcnn
from qcnn.cli.main import main

experiment = qcnn.Experiment(qubits=4)
for typed in {typed!r}:
    if os.fork() == 0:
        os.dup2(1, 2)
        sys.argv = ["qcnn", *typed.split()]
        main()
        os._exit(0)
    print("code", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
for called in {called!r}:
    try:
        eval(called)
    except qcnn.MissingLibraryError as error:
        print(error)
print(len(qcnn.generate(experiment).train))
if os.fork() == 0:
    os.dup2(1, 2)
    os.environ.update(_QCNN_COMPLETE="bash_complete", COMP_WORDS="qcnn predict ", COMP_CWORD="2")
    sys.argv = ["qcnn"]
    main()
print("code", os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the lines that all of these print, in one process because hiding the libraries takes a second."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "run").mkdir()
    (folder / "run" / "log.txt").touch()
    (folder / "run" / "train" / "logs").mkdir(parents=True)
    (folder / "rows.csv").write_text("qubit,angle,label\n0,0,1\n")
    (folder / "circuit.qasm").write_text("OPENQASM 3.0;\nqubit[4] q;\n")
    (folder / "model" / "saved_model").mkdir(parents=True)
    described = {"dataset_digest": "", "weights_sha256": "", "circuit": "", "training": {}}
    save_description({"experiment": from_mapping({}).model_dump(), **described}, folder / "model" / "model.json")
    before = set(folder.rglob("*"))
    program = PROGRAM.format(typed=list(TYPED), called=list(CALLED.values()))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    assert set(folder.rglob("*")) == before
    return done.stdout.splitlines()


def test_command_without_extra_names_it_in_one_line(output: list[str]) -> None:
    lines = iter(output)
    for typed, (command, title, extra, library) in TYPED.items():
        what = f'qcnn {command} needs {title}: pip install "qcnn-pipelines[{extra}]"'
        expected = f"error: {what}. Given: {library} is not installed"
        assert (next(lines), next(lines)) == (expected, "code 2"), typed


def test_function_without_extra_names_it(output: list[str]) -> None:
    *_, train, study, plan, generate, experiment, load, circuit, dataset, samples, _ = output
    assert train == 'qcnn.train needs Kubeflow\'s SDK: pip install "qcnn-pipelines[run]". Given: kfp is not installed'
    assert study == 'qcnn.study needs Kubeflow\'s SDK: pip install "qcnn-pipelines[run]". Given: kfp is not installed'
    assert plan == 'qcnn.plan needs cirq: pip install "qcnn-pipelines[run]". Given: cirq is not installed'
    assert generate == 'qcnn.generate needs SciPy: pip install "qcnn-pipelines[run]". Given: scipy is not installed'
    assert experiment == f"qcnn.Experiment needs pyarrow: {install_command('run')}. Given: pyarrow is not installed"
    assert load == 'qcnn.load needs TensorFlow: pip install "qcnn-pipelines[run]". Given: tensorflow is not installed'
    assert circuit == 'qcnn.Experiment needs cirq: pip install "qcnn-pipelines[run]". Given: cirq is not installed'
    assert dataset == f"qcnn.dataset needs scikit-learn: {install_command('run')}. Given: sklearn is not installed"
    assert int(samples) > 0


def test_shell_completion_without_extra_prints_nothing(output: list[str]) -> None:
    assert output[-1] == "code 0"
    assert "needs" not in output[-2]
