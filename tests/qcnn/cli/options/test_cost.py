"""What is said, and asked, before a training is sent where it costs money."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.cli.main import main
from qcnn.cli.options.cost import CostOptions, OnPlatform, confirm_cost
from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.targets import target_that
from qcnn.targets.base import Submits
from qcnn.targets.compiled_pipeline import pod_settings_in

LONG = {"workers": 32, "batch_size": 128, "epochs": 100_000}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of this machine, and it is not measured for this; nobody sits at a terminal."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO())


def pod(**settings: Any) -> PodSettings:
    return pod_settings({"image": "qcnn", "cpu": "8", **settings})


def on(target: str) -> OnPlatform:
    return target_that(Submits, target).platform


def trial(**words: Any) -> ExperimentConfig:
    return from_mapping({"qubits": 8, **words})


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def dollars(text: str) -> float:
    found = re.search(r"about ([\d,.]+) dollars", text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_one_line_says_what_it_costs_and_a_small_sum_is_not_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(), [trial()])
    assert re.fullmatch(
        r"estimate: training 1\d s on \d x [a-z0-9-]+, [\d.]+ machine hours, about [\d.]+ dollars by the prices of "
        r"us-central1 on \d{4}-\d\d-\d\d\n",
        said(capsys),
    )


@pytest.mark.parametrize("target", ["kubeflow", "tfjob", "vertex", "vertex-job"])
def test_without_a_terminal_more_than_the_limit_is_refused(capsys: pytest.CaptureFixture[str], target: str) -> None:
    with pytest.raises(ConfigError, match=r"^cost_limit: this is estimated to cost about .* --yes .* Given: 10$"):
        confirm_cost(CostOptions(10.0, False, None), on(target), pod(), [trial(**LONG)])
    assert dollars(said(capsys)) > 10


def test_what_was_agreed_to_beforehand_is_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(10.0, True, None), on("tfjob"), pod(), [trial(**LONG)])
    confirm_cost(CostOptions(1e6, False, None), on("tfjob"), pod(), [trial(**LONG)])
    assert said(capsys).count("estimate: ") == 2


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_it_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, goes_on: bool) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal(answer))
    # click asks by input(), which a test cannot answer while pytest holds stdin.
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: answer.strip())
    import click

    with contextlib.nullcontext() if goes_on else pytest.raises(click.Abort):
        confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(), [trial(**LONG)])


def test_a_study_costs_all_of_its_trials(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(1e9, False, None), on("tfjob"), pod(), [trial(epochs=20_000)])
    one = dollars(said(capsys))
    confirm_cost(
        CostOptions(1e9, False, None), on("tfjob"), pod(), [trial(epochs=20_000, seed=seed) for seed in range(30)]
    )
    text = said(capsys)
    assert "30 trainings, one after the other" in text
    assert dollars(text) == pytest.approx(30 * one, rel=0.01)


def test_processes_without_the_memory_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(1e9, False, None), on("tfjob"), pod(memory="512Mi"), [trial()])
    assert said(capsys).endswith("; its processes need more memory than they ask for\n")


def test_spot_machines_cost_less(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for spot in (False, True):
        confirm_cost(CostOptions(1e9, False, None), on("vertex"), pod(spot=spot), [trial(**LONG)])
        found[spot] = dollars(said(capsys))
    assert found[True] < 0.7 * found[False]


@pytest.mark.parametrize(
    ("settings", "words", "reason"),
    [
        ({"cpu": "900"}, {}, "pod: no machine type"),
        ({"cpu": "0"}, {}, "pod.cpu: must be above 0"),
        ({}, {"model": "nobodys.module:here"}, "model: cannot be imported"),
    ],
)
def test_where_no_estimate_can_be_made_that_is_said_and_nothing_asked(
    capsys: pytest.CaptureFixture[str], settings: dict[str, Any], words: dict[str, Any], reason: str
) -> None:
    """A circuit of one's own may be in the image alone."""
    confirm_cost(CostOptions(0.0, False, None), on("tfjob"), pod(**settings), [trial(**words)])
    assert said(capsys).startswith(f"no estimate of the cost: {reason}")


def test_a_package_that_names_no_pods_has_no_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(
        CostOptions(0.0, False, None), on("kubeflow"), pod_settings_in({"root": {}, "components": {}}), [trial()]
    )
    assert "the package does not say what its pods are given" in said(capsys)


@pytest.mark.parametrize("limit", ["-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], typed: Callable[..., int], limit: str
) -> None:
    assert typed("--cost-limit", limit) != 0
    assert re.fullmatch(
        rf"error: cost_limit: must be a number of dollars.* Given: {limit}(\.0)?\n", capsys.readouterr().err
    )


def test_a_submission_that_costs_too_much_reaches_no_cluster(
    capsys: pytest.CaptureFixture[str], typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit may come from the environment; there is no cluster here to be asked."""
    monkeypatch.setenv("QCNN_COST_LIMIT", "0")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert typed() != 0
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "error: cost_limit: this is estimated to cost about" in error


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*arguments: str) -> int:
        words = ["qcnn", "submit", "--target", "tfjob", "--output", "gs://bucket/folder", "--image", "qcnn"]
        monkeypatch.setattr("sys.argv", [*words, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


def test_less_than_a_cent_is_not_said_to_be_about_that(capsys: pytest.CaptureFixture[str]) -> None:
    cheap = trial(qubits=4, rounds=10, epochs=1)
    confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(cpu="100m", memory="100Mi"), [cheap])
    assert ", below 0.01 dollars by the prices of " in said(capsys)
    with pytest.raises(ConfigError, match=r"^cost_limit: this is estimated to cost below 0\.01 dollars; give --yes "):
        confirm_cost(CostOptions(0.0, False, None), on("tfjob"), pod(cpu="100m", memory="100Mi"), [cheap])
