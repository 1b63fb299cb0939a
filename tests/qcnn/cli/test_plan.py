"""Tests of qcnn plan."""

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

ROOT = Path(__file__).parents[3]
WORDS = ["--qubits", "12", "--rounds", "10", "--batch-size", "16", "--workers", "1", "--strategy", "none"]


def _table(text: str) -> dict[str, list[str]]:
    """Return the cells of each simulator's row."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row[0] in ("lightcone", "statevector", "tfq")}


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs the command and returns its stdout, or its stderr if it fails."""

    def typed(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["qcnn", "plan", *arguments])
        with contextlib.suppress(SystemExit):
            main()
        captured = capsys.readouterr()
        return captured.out or captured.err

    return typed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a separate cache folder with a nominal machine profile, because a benchmark takes seconds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = machine_cache.keep(NOMINAL_MACHINE)
    assert kept.path
    return kept.path.parent


def test_plan_counts_circuits_and_selects_cheapest_simulator(plan: Callable[..., str]) -> None:
    """The split of 120 samples is 0.7, 0.15 and 0.15. A light cone is two parts of 4 qubits with 2 traced out."""
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


def test_plan_reports_simulators_above_memory_limit(plan: Callable[..., str]) -> None:
    text = plan(*WORDS, "--simulator-memory-gib", "0.0003", "--simulator", "lightcone")
    assert "simulator lightcone, as requested: about" in text
    assert _table(text)["statevector"][-1] == "exceeds simulator_memory_gib"


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ("--model", "deep", "--qubits", "64"),
            "qubits: no simulator can run this .* needs the least, .* TiB. Given: 64",
        ),
        # Light cones that are too wide to be counted.
        (("--model", "deep", "--qubits", "2000"), "qubits: no simulator .* more than any machine has. Given: 2000"),
        (("--simulator", "lightcone", "--model", "deep", "--qubits", "300"), "qubits: the light cones .* Given: 300"),
        (("--simulator", "statevector", "--qubits", "64"), "qubits: must be at most 30 with simulator .* Given: 64"),
        (("--model", "tests.nothing:here"), "model: cannot be imported or fails .* Given: tests.nothing:here"),
    ],
)
def test_plan_without_suitable_simulator_is_an_error(
    plan: Callable[..., str], flags: tuple[str, ...], line: str
) -> None:
    assert re.fullmatch(rf"error: {line}\n", plan(*flags, "--rounds", "2"))


def test_plan_reports_break_even_number_of_workers(plan: Callable[..., str]) -> None:
    """Each of 2 workers evolves one bundle, with the flipped states of its qubits, and so does each of 4."""
    text = plan("--model", "deep", "--qubits", "16", "--rounds", "100", "--batch-size", "512", "--workers", "4")
    assert text.endswith("; more than 2 workers do not pay\n")
    # 5 of 17 states.
    assert _table(text)["statevector"][2] == "17.5 MiB"


def test_plan_reports_processes_and_machines(plan: Callable[..., str]) -> None:
    many = (*WORDS[:-4], "--workers", "2", "--strategy", "multi_worker")
    text = plan(*many)
    place = "in 2 processes, if each has a machine like this one"
    assert f"seconds per epoch {place}, which was benchmarked on" in text
    assert re.search(rf"after compilation, {place}$", text, re.M)
    assert "this machine" not in text
    assert json.loads(plan(*many, "--format", "json"))["processes"] == 2
    alone = plan(*WORDS)
    assert re.search(r"after compilation, in 1 process on this machine$", alone, re.M)
    assert json.loads(plan(*WORDS, "--format", "json"))["processes"] == 1
    # The chief and the parameter server have separate machines.
    assert "in 4 processes, if each has a machine" in plan(
        *WORDS[:-4], "--workers", "2", "--strategy", "parameter_server"
    )


@pytest.mark.parametrize(("qubits", "measured"), [("12", 956e6), ("17", 935e6), ("20", 1132e6), ("22", 1993e6)])
def test_process_memory_is_at_least_measured_peak(plan: Callable[..., str], qubits: str, measured: float) -> None:
    """The measured peaks of model deep in one process are those of docs/benchmarks.md."""
    flags = ("--model", "deep", "--qubits", qubits, "--rounds", "4", "--batch-size", "32", "--workers", "1")
    found = json.loads(plan(*flags, "--strategy", "none", "--format", "json"))
    assert measured <= found["process_memory_bytes"] < 1.3 * measured
    states = found["simulators"][found["simulator"]]["memory_bytes"]
    assert found["process_memory_bytes"] == 2**30 + states
    assert "for TensorFlow, modules and compiled functions" in plan(*flags, "--strategy", "none")


def test_plan_reports_date_and_spread_of_benchmark(plan: Callable[..., str]) -> None:
    today = datetime.date.today()
    assert f"benchmarked on {today} with a spread of 0%; delete" in plan(*WORDS)
    machine_cache.keep(NOMINAL_MACHINE, 0.75)
    assert f"benchmarked on {today} with a spread of 75%, because other processes used the machine; delete" in plan(
        *WORDS
    )
    assert json.loads(plan(*WORDS, "--format", "json"))["machine"]["spread"] == 0.75


@pytest.mark.parametrize("qubits", [27, 30, 31, 64, 1024, 5001])
def test_plan_at_any_size_selects_lightcone(plan: Callable[..., str], qubits: int) -> None:
    """Unsupported simulators have no numbers."""
    text = plan("--qubits", str(qubits), "--rounds", "2")
    assert "simulator lightcone, the cheapest that is exact and fits in memory: about " in text
    table = _table(text)
    assert table["lightcone"][-1] == "selected"
    assert table["tfq"] == ["unsupported"]
    # Counted up to 30 qubits, even above the memory limit.
    assert (len(table["statevector"]) == 5) == (qubits <= 30)
    assert not re.search(r"\b(nan|inf)\b|any machine", text)


def test_training_time_includes_initializations(plan: Callable[..., str]) -> None:
    """Each of the 10 other initializations trains for 5 of the 50 epochs. Files of an epoch are written in 0.01 s."""
    text = plan("--model", "deep", "--workers", "1", "--epochs", "50")
    found = re.search(
        r"50 epochs with batches of 64, including 11 initializations .*: about ([\d.]+) s after compilation", text
    )
    an_epoch = re.search(r"about ([\d.]+) seconds per epoch", text)
    assert found
    assert an_epoch
    assert float(found[1]) == pytest.approx(100 * (float(an_epoch[1]) + 0.01), rel=0.1)


# The command, whose benchmark runs once and times each program once: repetitions only make its rates more accurate.
_ONE_BENCHMARK = """
import functools
from qcnn.cli.main import main
from qcnn.planning import machine_cache

def keep_first(benchmark, before):
    # Only now, because the module imports TensorFlow.
    from qcnn.planning import machine_benchmark
    machine_benchmark._SECONDS, machine_benchmark._REPEATS = 0.0, 1
    return keep_fastest(functools.cache(benchmark), before)

keep_fastest, machine_cache.keep_fastest = machine_cache.keep_fastest, keep_first
main()
"""


def test_machine_is_benchmarked_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = cache.iterdir()
    file.write_text("damaged")
    # A new process, because TensorFlow prints messages only at its first import.
    program = [sys.executable, "-c", _ONE_BENCHMARK, "plan", *WORDS]
    first = subprocess.run(program, capture_output=True, text=True, check=True)
    assert first.stderr == "benchmarking this machine, which takes a few seconds\n"
    assert f"which was benchmarked on {datetime.date.today()} with a spread of " in first.stdout
    assert f"; delete {file} to repeat the benchmark" in first.stdout
    # Equal, because this process uses the cached benchmark of the other one.
    monkeypatch.setattr("sys.argv", ["qcnn", "plan", *WORDS])
    main()
    assert capsys.readouterr() == (first.stdout, "")


def test_plan_with_cached_machine_does_not_import_tensorflow() -> None:
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


REMOTE = ["--model", "deep", "--qubits", "16", "--rounds", "100", "--batch-size", "256"]


@pytest.mark.parametrize("target", ["kubeflow", "tfjob", "vertex", "vertex-job"])
def test_plan_for_target_lists_machines_and_cost_by_workers(plan: Callable[..., str], target: str) -> None:
    text = plan(*REMOTE, "--target", target, "--cpu", "4", "--workers", "3", "--epochs", "999")
    assert (
        f"--target {target}, each process with 4 cores and a memory request of 2Gi; prices of us-central1 on 2026-"
        in text
    )
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines() if re.match(r"\d+ {4,}", line)]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "8", "16", "32"]
    assert all(float(row[5]) > 0 and re.fullmatch(r"\d+ x [a-z0-9-]+", row[3]) for row in rows)
    notes = {row[0]: row[7] for row in rows if len(row) == 8}
    assert notes["3"].startswith("requested")
    assert {"cheapest", "fastest"} <= set(", ".join(notes.values()).split(", "))


def test_plan_reports_sufficient_local_machine(plan: Callable[..., str]) -> None:
    enough = "the local machine is sufficient: one process trains in about"
    assert enough in plan("--target", "kubeflow")
    assert enough not in plan(*REMOTE, "--target", "kubeflow", "--cpu", "8", "--epochs", "9999")


GPU_TIMES = "the times are estimates from data sheets (2026-11), not measured: "


@pytest.mark.parametrize("target", ["kubeflow", "tfjob", "vertex", "vertex-job"])
def test_plan_with_accelerator_reports_estimates_from_data_sheets(plan: Callable[..., str], target: str) -> None:
    flags = ("--qubits", "12", "--workers", "1", "--target", target)
    text = plan(*flags, "--accelerator", "nvidia-l4")
    assert f"{GPU_TIMES}1 GPU nvidia-l4 per process with simulator " in text
    assert ", 30.3 TFLOPS (0.473 in 64 bits), 300 GB/s, 24 GB\nrun a probe there, such as " in text
    assert "g2-standard-" in text
    assert "data sheets" not in plan(*flags)


def test_plan_counts_gpus_that_strategy_uses(plan: Callable[..., str]) -> None:
    flags = (*REMOTE, "--target", "tfjob", "--accelerator", "nvidia-l4", "--gpus", "2", "--workers", "1")
    assert f"{GPU_TIMES}1 of 2 GPUs nvidia-l4 per" in plan(*flags, "--strategy", "none")
    assert f"{GPU_TIMES}2 of 2 GPUs nvidia-l4 per" in plan(*flags, "--strategy", "mirrored", "--devices", "2")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--gpus", "1"), "the times are those of the CPU cores with simulator statevector: --accelerator names the"),
        (
            ("--accelerator", "nvidia-l4", "--simulator", "tfq"),
            "the times are those of the CPU cores, because simulator tfq does not use GPUs",
        ),
    ],
)
def test_plan_reports_why_times_are_not_those_of_gpus(
    plan: Callable[..., str], flags: tuple[str, ...], message: str
) -> None:
    text = plan(*REMOTE, "--target", "kubeflow", *flags)
    assert message in text
    assert GPU_TIMES not in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--accelerator", "nvidia-l4", "--simulator", "statevector_cpu"),
            "error: simulator: must be auto or lightcone or statevector or density in processes with GPUs. "
            "Given: statevector_cpu",
        ),
        (("--accelerator", "nvidia-l5"), "error: pod.accelerator: must be one of nvidia-l4, nvidia-tesla-t4, "),
        (("--accelerator", "nvidia-l4", "--gpus", "0"), "error: pod.gpus: must be at least 1 with accelerator"),
    ],
)
def test_plan_with_invalid_accelerator_is_an_error(
    plan: Callable[..., str], flags: tuple[str, ...], message: str
) -> None:
    (*_, line) = plan(*REMOTE, "--target", "kubeflow", *flags).splitlines()
    assert line.startswith(message)


def test_plan_on_gpus_uses_simulator_that_runs_there(plan: Callable[..., str]) -> None:
    """Features on this network are evolved fastest by the compiled kernels, which do not run on GPUs."""
    flags = ("--config", str(ROOT / "examples" / "digits.yaml"), "--model", "deep", "--target", "tfjob")
    on_cores, on_gpus = (
        json.loads(plan(*flags, "--format", "json", *more)) for more in ((), ("--accelerator", "nvidia-l4"))
    )
    assert on_cores["simulator"] == on_cores["remote_simulator"] == on_gpus["simulator"] == "statevector_cpu"
    assert on_gpus["remote_simulator"] in ("lightcone", "statevector")
    assert (on_cores["gpu_data_sheets"], on_gpus["gpu_data_sheets"]) == (None, "2026-11")


def test_plan_reports_states_that_exceed_gpu_memory(plan: Callable[..., str]) -> None:
    """The states of one worker take 50 GB. The memory of the pods is sufficient, and that of the GPU is not."""
    large = ("--model", "deep", "--qubits", "25", "--rounds", "10", "--batch-size", "32", "--workers", "1")
    memory = ("--simulator", "statevector", "--simulator-memory-gib", "64", "--memory", "100Gi")
    flags = (*large, *memory, "--target", "tfjob")
    (requested,) = re.findall(r"^1 .*requested.*$", plan(*flags, "--accelerator", "nvidia-l4"), re.MULTILINE)
    assert "needs more GPU memory" in requested
    assert "needs more" not in plan(*flags, "--accelerator", "nvidia-a100-80gb")
    assert "needs more" not in plan(*flags)


def test_plan_with_gpus_names_required_image(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--target", "kubeflow", "--format", "json", "--image", "registry/qcnn:1")
    for gpus, is_warned in ((1, True), (0, False)):
        monkeypatch.setattr("sys.argv", ["qcnn", "plan", *WORDS, *flags, "--gpus", str(gpus)])
        main()
        captured = capsys.readouterr()
        assert json.loads(captured.out)["target"] == "kubeflow"
        assert ("pod.gpus: processes with GPUs use the image registry/qcnn:1-gpu" in captured.err) is is_warned


def test_plan_reports_number_of_trajectories(plan: Callable[..., str]) -> None:
    """The test split contains 18 of the 120 samples."""
    noisy = (*WORDS, "--noise", "readout=0.1", "--trajectories", "7")
    assert "the evaluation also samples 126 trajectories of 12 qubits, which this estimate does not include" in plan(
        *noisy
    )
    assert json.loads(plan(*noisy, "--format", "json"))["trajectories"] == 126
    assert "trajectories" not in plan(*WORDS)


def test_plan_as_json(plan: Callable[..., str]) -> None:
    found = json.loads(
        plan("--qubits", "12", "--target", "vertex", "--format", "json", "--machine-type", "n2-standard-8")
    )
    assert found["simulator"] == "lightcone"
    assert found["simulators"]["lightcone"]["epoch_seconds"] == found["epoch_seconds"]
    assert {way["bill"]["machine"] for way in found["ways"]} == {"n2-standard-8"}
    assert found["cheapest"] in [way["workers"] for way in found["ways"]]
    # The local target has no cost.
    assert "ways" not in json.loads(plan("--qubits", "12", "--format", "json"))
    # Numbers above the memory of any machine are null.
    assert json.loads(plan("--qubits", "64", "--rounds", "2", "--format", "json"))["simulators"]["tfq"]["flops"] is None


def test_plan_with_custom_prices(plan: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "date: 2031-05-06\nregion: our-cellar\nsource: a bill\nmachines:\n  big: {cpus: 64, memory: 256, price: 60}\n"
    )
    text = plan("--qubits", "12", "--workers", "1", "--target", "tfjob", "--prices", str(file))
    assert "prices of our-cellar on 2031-05-06" in text
    # Ten idle minutes and less than a minute of training.
    assert re.search(r"^1 .* 1 x big .* 10\.\d\d +requested, cheapest, fastest$", text, re.M)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--cpu", "4"), "plan: --pod and pod settings must be given with --target kubeflow, .* Given: --target local"),
        (
            ("--machine-type", "n2-standard-8"),
            "plan: --machine-type must be given with --target .* Given: --target local",
        ),
        (("--target", "tfjob", "--machine-type", "z9"), "machine_type: must be in the prices.* Given: z9"),
        (
            ("--target", "vertex", "--machine-type", "z9"),
            "pod.vertex.machine_type: must be a Vertex AI training machine type .* Given: z9",
        ),
        (("--target", "tfjob", "--cpu", "900"), "pod: must fit on a machine type .* Given: cpu 900, memory 2Gi"),
        (("--target", "tfjob", "--prices", "nothing.yaml"), "prices: .* Given: nothing.yaml"),
    ],
)
def test_plan_with_invalid_prices_or_pods_is_an_error(
    plan: Callable[..., str], flags: tuple[str, ...], line: str
) -> None:
    assert re.fullmatch(rf"error: {line}\n", plan(*flags, "--qubits", "12"))
