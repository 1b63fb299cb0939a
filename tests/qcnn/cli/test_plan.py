"""qcnn plan as a user types it."""

import contextlib
import datetime
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qcnn.cli.main import main
from qcnn.planning import machine_cache
from qcnn.planning.machine import NOMINAL_MACHINE

WORDS = ["--qubits", "12", "--rounds", "10", "--batch-size", "16", "--workers", "1", "--strategy", "none"]


def _table(text: str) -> dict[str, list[str]]:
    """Return the cells behind every simulator's name."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row[0] in ("lightcone", "statevector", "tfq")}


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Type the command; return what it prints on stdout, or on stderr where it fails."""

    def typed(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["qcnn", "plan", *arguments])
        with contextlib.suppress(SystemExit):
            main()
        captured = capsys.readouterr()
        return captured.out or captured.err

    return typed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder of its own, which takes the machine for a nominal one: measuring it takes seconds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = machine_cache.keep(NOMINAL_MACHINE)
    assert kept.path
    return kept.path.parent


def test_counts_what_an_epoch_runs_and_names_the_cheapest(plan: Callable[..., str]) -> None:
    """120 samples are split 0.7, 0.15 and 0.15; a readout's cone is two parts of 4 qubits with 2 traced out."""
    text = plan(*WORDS)
    assert "120 samples; an epoch runs 102 circuits in 6 training and 2 validation steps" in text
    assert re.search(
        r"6 readouts, \d of them distinct; independent parts .* traced-out qubits: 6 qubits \+ 6 qubits", text
    )
    assert re.search(
        r"simulator lightcone, the cheapest .*: about [\d.e-]+ seconds per epoch in 1 process on this machine", text
    )
    table = _table(text)
    assert [name for name, cells in table.items() if cells[-1] == "selected"] == ["lightcone"]
    seconds = {name: float(cells[3]) for name, cells in table.items()}
    assert seconds["lightcone"] < seconds["statevector"] < seconds["tfq"]
    assert "more than one worker does not pay" in text


def test_tells_what_does_not_fit(plan: Callable[..., str]) -> None:
    text = plan(*WORDS, "--simulator-memory-gib", "0.0005", "--simulator", "lightcone")
    assert "simulator lightcone, as requested: about" in text
    assert _table(text)["statevector"][-1] == "exceeds simulator_memory_gib"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--model", "deep", "--qubits", "64"),
            "qubits: no simulator can run this .* needs the least, .* TiB. Given: 64",
        ),
        # Light cones that cannot even be counted.
        (("--model", "deep", "--qubits", "2000"), "qubits: no simulator .* more than any machine has. Given: 2000"),
        (("--simulator", "lightcone", "--model", "deep", "--qubits", "300"), "qubits: the light cones .* Given: 300"),
        (("--simulator", "statevector", "--qubits", "64"), "qubits: must be at most 30 with simulator .* Given: 64"),
        (("--model", "tests.nothing:here"), "model: cannot be imported or fails .* Given: tests.nothing:here"),
    ],
)
def test_refuses_what_no_simulator_can_run_in_one_line(
    plan: Callable[..., str], words: tuple[str, ...], line: str
) -> None:
    assert re.fullmatch(rf"error: {line}\n", plan(*words, "--rounds", "2"))


def test_says_from_where_on_more_workers_do_not_pay(plan: Callable[..., str]) -> None:
    """16 of them evolve two states each, and so do 32."""
    text = plan("--model", "deep", "--qubits", "16", "--rounds", "100", "--batch-size", "256", "--workers", "4")
    assert text.endswith("; more than 16 workers do not pay\n")
    # Of 17 states 5.
    assert _table(text)["statevector"][2] == "25 MiB"


def test_every_number_says_of_how_many_processes_and_machines_it_is(plan: Callable[..., str]) -> None:
    many = (*WORDS[:-4], "--workers", "2", "--strategy", "multi_worker")
    text = plan(*many)
    assert re.search(r"seconds per epoch in 2 processes on 2 machines like this one, which was benchmarked on", text)
    assert re.search(r"after compilation, in 2 processes on 2 machines like this one$", text, re.M)
    assert "this machine" not in text
    assert json.loads(plan(*many, "--format", "json"))["processes"] == 2
    alone = plan(*WORDS)
    assert re.search(r"after compilation, in 1 process on this machine$", alone, re.M)
    assert json.loads(plan(*WORDS, "--format", "json"))["processes"] == 1
    # A chief and a parameter server have machines of their own.
    assert "in 4 processes on 4 machines" in plan(*WORDS[:-4], "--workers", "2", "--strategy", "parameter_server")


@pytest.mark.parametrize(("qubits", "measured"), [("12", 954e6), ("17", 1254e6), ("20", 2333e6), ("22", 2538e6)])
def test_the_memory_of_a_process_is_at_least_what_was_measured(
    plan: Callable[..., str], qubits: str, measured: float
) -> None:
    """The peak of a training of `deep` in one process, as docs/benchmarks.md has it."""
    words = ("--model", "deep", "--qubits", qubits, "--rounds", "4", "--batch-size", "32", "--workers", "1")
    found = json.loads(plan(*words, "--strategy", "none", "--format", "json"))
    assert measured <= found["process_memory_bytes"] < 1.3 * measured
    states = found["simulators"]["statevector"]["memory_bytes"]
    assert found["process_memory_bytes"] == 2**30 + states
    assert "for TensorFlow, modules and compiled functions" in plan(*words, "--strategy", "none")


def test_a_measurement_says_its_spread(plan: Callable[..., str]) -> None:
    today = datetime.date.today()
    assert f"benchmarked on {today} with a spread of 0%; delete" in plan(*WORDS)
    machine_cache.keep(NOMINAL_MACHINE, 0.75)
    assert f"benchmarked on {today} with a spread of 75%, because other processes used the machine; delete" in plan(
        *WORDS
    )
    assert json.loads(plan(*WORDS, "--format", "json"))["machine"]["spread"] == 0.75


@pytest.mark.parametrize("qubits", [27, 30, 31, 64, 1024, 5001])
def test_plans_at_any_size(plan: Callable[..., str], qubits: int) -> None:
    """What does not fit anywhere has no numbers."""
    text = plan("--qubits", str(qubits), "--rounds", "2")
    assert "simulator lightcone, the cheapest that is exact and fits in memory: about " in text
    table = _table(text)
    assert table["lightcone"][-1] == "selected"
    assert table["tfq"] == ["unsupported"]
    # Counted up to 30 qubits, though they do not fit.
    assert (len(table["statevector"]) == 5) == (qubits <= 30)
    assert not re.search(r"\b(nan|inf)\b|any machine", text)


def test_tells_how_long_the_whole_training_takes_with_all_that_is_tried(plan: Callable[..., str]) -> None:
    """Of 50 epochs each of the eleven other starts has five."""
    text = plan("--model", "deep", "--workers", "1", "--epochs", "50")
    found = re.search(
        r"50 epochs with batches of 64, including 12 initializations .*: about ([\d.]+) s after compilation", text
    )
    an_epoch = re.search(r"about ([\d.]+) seconds per epoch", text)
    assert found
    assert an_epoch
    assert float(found[1]) == pytest.approx(105 * float(an_epoch[1]), rel=0.1)


def test_the_machine_is_measured_once(cache: Path) -> None:
    (file,) = cache.iterdir()
    file.write_text("damaged")
    # Processes of their own: what TensorFlow says when it loads is seen only there.
    program = [sys.executable, "-c", "from qcnn.cli.main import main; main()", "plan", *WORDS]
    first, second = (subprocess.run(program, capture_output=True, text=True, check=True) for _ in range(2))
    assert (first.stderr, second.stderr) == ("benchmarking this machine, which takes a few seconds\n", "")
    # To the digit: the numbers are those that were measured then.
    assert first.stdout == second.stdout
    assert f"which was benchmarked on {datetime.date.today()} with a spread of " in first.stdout
    assert f"; delete {file} to repeat the benchmark" in first.stdout


def test_a_machine_that_is_known_needs_no_tensorflow() -> None:
    program = """
import sys
from qcnn.cli.main import main
sys.argv = ["qcnn", "plan", "--qubits", "12"]
main()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "about" in done.stdout
    assert not {"tensorflow", "tf_keras"} & set(done.stdout.split())


ELSEWHERE = ["--model", "deep", "--qubits", "16", "--rounds", "100", "--batch-size", "256"]


@pytest.mark.parametrize("target", ["kubeflow", "tfjob", "vertex", "vertex-job"])
def test_tells_machines_and_money_by_the_number_of_workers(plan: Callable[..., str], target: str) -> None:
    text = plan(*ELSEWHERE, "--target", target, "--cpu", "4", "--workers", "3", "--epochs", "999")
    assert (
        f"--target {target}, each process with 4 cores and a memory request of 2Gi; prices of us-central1 on 2026-"
        in text
    )
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines() if re.match(r"\d+ {4,}", line)]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "8", "16", "32"]
    assert all(float(row[5]) > 0 and re.fullmatch(r"\d+ x [a-z0-9-]+", row[3]) for row in rows)
    said = {row[0]: row[7] for row in rows if len(row) == 8}
    assert said["3"].startswith("requested")
    assert {"cheapest", "fastest"} <= set(", ".join(said.values()).split(", "))


def test_says_plainly_that_this_machine_is_enough(plan: Callable[..., str]) -> None:
    enough = "the local machine is sufficient: one process trains in about"
    assert enough in plan("--target", "kubeflow")
    assert enough not in plan(*ELSEWHERE, "--target", "kubeflow", "--cpu", "8", "--epochs", "9999")


def test_what_is_not_known_of_gpus_is_said(plan: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("gpus: 1\naccelerator: nvidia-l4\n")
    words = ("--qubits", "12", "--workers", "1", "--target", "vertex")
    said = "the cost includes GPUs, but their speed is unknown"
    assert said in plan(*words, "--pod", str(tmp_path / "pod.yaml"))
    assert said not in plan(*words)


def test_plan_with_gpus_names_the_image_they_need(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--target", "kubeflow", "--format", "json", "--image", "registry/qcnn:1")
    for gpus, is_said in ((1, True), (0, False)):
        monkeypatch.setattr("sys.argv", ["qcnn", "plan", *WORDS, *words, "--gpus", str(gpus)])
        main()
        captured = capsys.readouterr()
        assert json.loads(captured.out)["target"] == "kubeflow"
        assert ("pod.gpus: the image must contain TensorFlow's CUDA libraries" in captured.err) is is_said


def test_says_how_often_noise_is_drawn(plan: Callable[..., str]) -> None:
    """Of the 120 samples 18 are the test split."""
    noisy = (*WORDS, "--noise", "readout=0.1", "--trajectories", "7")
    assert "the evaluation also samples 126 trajectories of 12 qubits, which this estimate does not include" in plan(
        *noisy
    )
    assert json.loads(plan(*noisy, "--format", "json"))["trajectories"] == 126
    assert "trajectories" not in plan(*WORDS)


def test_all_numbers_as_json(plan: Callable[..., str]) -> None:
    found = json.loads(
        plan("--qubits", "12", "--target", "vertex", "--format", "json", "--machine-type", "n2-standard-8")
    )
    assert found["simulator"] == "lightcone"
    assert found["simulators"]["lightcone"]["epoch_seconds"] == found["epoch_seconds"]
    assert {way["bill"]["machine"] for way in found["ways"]} == {"n2-standard-8"}
    assert found["cheapest"] in [way["workers"] for way in found["ways"]]
    # Here there are no bills.
    assert "ways" not in json.loads(plan("--qubits", "12", "--format", "json"))
    # What no machine has is no number.
    assert json.loads(plan("--qubits", "64", "--rounds", "2", "--format", "json"))["simulators"]["tfq"]["flops"] is None


def test_prices_of_ones_own(plan: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "date: 2031-05-06\nregion: our-cellar\nsource: a bill\nmachines:\n  big: {cpus: 64, memory: 256, price: 60}\n"
    )
    text = plan("--qubits", "12", "--workers", "1", "--target", "tfjob", "--prices", str(file))
    assert "prices of our-cellar on 2031-05-06" in text
    # Ten minutes of idling and less than one of training.
    assert re.search(r"^1 .* 1 x big .* 10\.\d\d +requested, cheapest, fastest$", text, re.M)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--cpu", "4"), "plan: --pod and pod settings must be given with --target kubeflow, .* Given: --target local"),
        (
            ("--machine-type", "n2-standard-8"),
            "plan: --machine-type must be given with --target .* Given: --target local",
        ),
        (("--target", "tfjob", "--machine-type", "z9"), "machine_type: must be in the prices.* Given: z9"),
        (("--target", "vertex", "--machine-type", "z9"), "pod.vertex.machine_type: must be of those .* Given: z9"),
        (("--target", "tfjob", "--cpu", "900"), "pod: no machine type .* Given: cpu 900, memory 2Gi"),
        (("--target", "tfjob", "--prices", "nothing.yaml"), "prices: .* Given: nothing.yaml"),
    ],
)
def test_refuses_what_it_cannot_price_in_one_line(plan: Callable[..., str], words: tuple[str, ...], line: str) -> None:
    assert re.fullmatch(rf"error: {line}\n", plan(*words, "--qubits", "12"))
