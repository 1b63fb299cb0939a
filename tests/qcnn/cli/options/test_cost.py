"""Tests of the cost estimate and its confirmation."""

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
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.targets import target_class
from qcnn.targets.base import Submits
from qcnn.targets.compiled_pipeline import pod_settings_in
from tests.qcnn.jobs.apiserver import ApiServer

LONG = {"workers": 32, "batch_size": 128, "epochs": 500_000}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide an empty machine cache and a stdin that is not a terminal."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO())


def pod(**settings: Any) -> PodSettings:
    return pod_settings({"image": "qcnn", "cpu": "8", **settings})


def on(target: str) -> OnPlatform:
    return target_class(target, Submits).platform


def trial(**fields: Any) -> ExperimentConfig:
    return from_mapping({"qubits": 8, **fields})


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def usd(text: str) -> float:
    found = re.search(r"about ([\d,.]+) USD", text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_confirm_cost_below_limit_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(), [trial()])
    assert re.fullmatch(
        r"estimate: training 1\d s on \d x [a-z0-9-]+, [\d.]+ machine hours, about [\d.]+ USD at the prices of "
        r"us-central1 on \d{4}-\d\d-\d\d\n",
        printed(capsys),
    )


@pytest.mark.parametrize("target", ["kubeflow", "tfjob", "vertex", "vertex-job"])
def test_confirm_cost_above_limit_without_terminal_is_an_error(capsys: pytest.CaptureFixture[str], target: str) -> None:
    with pytest.raises(ConfigError, match=r"^cost_limit: must be .* cost, about .* --yes .* Given: 10$"):
        confirm_cost(CostOptions(10.0, False, None), on(target), pod(), [trial(**LONG)])
    assert usd(printed(capsys)) > 10


def test_confirm_cost_with_yes_or_higher_limit_does_not_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(10.0, True, None), on("tfjob"), pod(), [trial(**LONG)])
    confirm_cost(CostOptions(1e6, False, None), on("tfjob"), pod(), [trial(**LONG)])
    assert printed(capsys).count("estimate: ") == 2


@pytest.mark.parametrize(("answer", "is_confirmed"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_confirm_cost_at_terminal_prompts(monkeypatch: pytest.MonkeyPatch, answer: str, is_confirmed: bool) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal(answer))
    # click prompts with input(), which fails while pytest captures stdin.
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: answer.strip())
    import click

    with contextlib.nullcontext() if is_confirmed else pytest.raises(click.Abort):
        confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(), [trial(**LONG)])


def test_confirm_cost_of_study_scales_with_trials(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(1e9, False, None), on("tfjob"), pod(), [trial(epochs=100_000)])
    one = usd(printed(capsys))
    confirm_cost(
        CostOptions(1e9, False, None), on("tfjob"), pod(), [trial(epochs=100_000, seed=seed) for seed in range(30)]
    )
    text = printed(capsys)
    assert "30 sequential training runs" in text
    assert usd(text) == pytest.approx(30 * one, rel=0.01)


def test_confirm_cost_reports_insufficient_memory(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(CostOptions(1e9, False, None), on("tfjob"), pod(memory="512Mi"), [trial()])
    assert printed(capsys).endswith("; the processes need more memory than their pods request\n")


def test_confirm_cost_of_spot_machines_is_lower(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for spot in (False, True):
        confirm_cost(CostOptions(1e9, False, None), on("vertex"), pod(spot=spot), [trial(**LONG)])
        found[spot] = usd(printed(capsys))
    assert found[True] < 0.7 * found[False]


@pytest.mark.parametrize(
    ("settings", "fields", "reason"),
    [
        ({"cpu": "900"}, {}, "pod: must fit on a machine type of the prices"),
        ({"cpu": "0"}, {}, "pod.cpu: must be above 0"),
        ({}, {"model": "missing_module:circuit"}, "model: cannot be imported"),
    ],
)
def test_confirm_cost_without_estimate_reports_reason(
    capsys: pytest.CaptureFixture[str], settings: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    """The module of a custom circuit may exist in the image only."""
    confirm_cost(CostOptions(0.0, False, None), on("tfjob"), pod(**settings), [trial(**fields)])
    assert printed(capsys).startswith(f"no cost estimate: {reason}")


def test_confirm_cost_of_pipeline_without_pods_reports_reason(capsys: pytest.CaptureFixture[str]) -> None:
    confirm_cost(
        CostOptions(0.0, False, None), on("kubeflow"), pod_settings_in({"root": {}, "components": {}}), [trial()]
    )
    assert "the compiled pipeline does not define the resources of its pods" in printed(capsys)


@pytest.mark.parametrize("limit", ["-1", "nan", "inf"])
def test_submit_with_invalid_cost_limit_is_an_error(
    capsys: pytest.CaptureFixture[str], typed: Callable[..., int], limit: str
) -> None:
    assert typed("--cost-limit", limit) != 0
    assert re.fullmatch(
        rf"error: cost_limit: must be a number of USD.* Given: {limit}(\.0)?\n", capsys.readouterr().err
    )


def test_submit_above_cost_limit_creates_nothing(
    capsys: pytest.CaptureFixture[str],
    typed: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    api_server: ApiServer,
) -> None:
    """The limit comes from the environment."""
    monkeypatch.setenv("QCNN_COST_LIMIT", "0")
    assert typed() != 0
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "error: cost_limit: must be at least the estimated cost, about" in error
    assert not api_server.all("tfjobs")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*arguments: str) -> int:
        command = ["qcnn", "submit", "--target", "tfjob", "--output", "gs://bucket/folder", "--image", "qcnn"]
        monkeypatch.setattr("sys.argv", [*command, *arguments])
        with pytest.raises(SystemExit) as exited:
            main()
        return int(exited.value.code or 0)

    return run


def test_confirm_cost_below_one_cent_is_not_about(capsys: pytest.CaptureFixture[str]) -> None:
    cheap = trial(qubits=4, rounds=10, epochs=1)
    confirm_cost(CostOptions(10.0, False, None), on("tfjob"), pod(cpu="100m", memory="100Mi"), [cheap])
    assert ", below 0.01 USD at the prices of " in printed(capsys)
    with pytest.raises(ConfigError, match=r"^cost_limit: must be .* cost, below 0\.01 USD; pass --yes "):
        confirm_cost(CostOptions(0.0, False, None), on("tfjob"), pod(cpu="100m", memory="100Mi"), [cheap])
