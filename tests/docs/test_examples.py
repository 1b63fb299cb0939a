"""The files of examples/, and those that the documents show, compiled or read as a user would have it done."""

import re
from pathlib import Path

import pytest

from cli.options.pod import read_pod
from cli.options.search import KEYS, read_search
from launchers.pod import pod_settings
from pipelines.targets import compile_target, read_defaults, read_settings
from tests.docs.documents import ROOT, blocks
from trainer.config import ExperimentConfig, from_mapping, read_file
from trainer.study.search import search_from_mapping
from trainer.study.trials import plan

EXAMPLES = ROOT / "examples"
EXPERIMENTS = sorted({*EXAMPLES.glob("*.yaml")} - {EXAMPLES / "study.yaml", EXAMPLES / "pod.yaml"})


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_an_experiment_is_compiled_with_its_words_as_defaults(path: Path, tmp_path: Path) -> None:
    spec = compile_target("kubeflow", tmp_path / "qcnn.yaml", defaults=read_defaults(path))
    parameters = spec.root.input_definitions.parameters
    for name, value in read_file(path).items():
        if name == "options":
            given = dict(parameters[name].default_value.struct_value)
            assert {key: given[key] for key in value} == value
        else:
            default = parameters[name].default_value
            assert getattr(default, default.WhichOneof("kind")) == value


def test_the_first_one_is_what_make_run_trains() -> None:
    assert from_mapping(read_file(EXAMPLES / "first.yaml")) == ExperimentConfig()


def _trials(path: Path) -> list[ExperimentConfig]:
    words = read_file(path)
    found = {key: words.pop(key, None) for key in KEYS}
    return plan(words, search_from_mapping(read_search(found, (), (), None)))


def test_studies_draw_what_they_say(tmp_path: Path) -> None:
    (shown,) = blocks(ROOT / "docs" / "studies.md", "yaml")
    (tmp_path / "study.yaml").write_text(shown.text)
    assert len(_trials(tmp_path / "study.yaml")) == 20
    trials = _trials(EXAMPLES / "study.yaml")
    assert len(trials) == 12
    assert {trial.model for trial in trials} == {"hybrid", "deep"}
    assert all(0.001 <= trial.learning_rate <= 0.1 for trial in trials)


def test_settings_of_pods_are_taken_by_the_pipeline_and_by_trainings_on_a_cluster(tmp_path: Path) -> None:
    path = EXAMPLES / "pod.yaml"
    spec = compile_target("kubeflow", tmp_path / "qcnn.yaml", "team/qcnn:1", settings=read_settings(path))
    container = spec.deployment_spec["executors"]["exec-evaluate"]["container"]
    assert container["image"] == "team/qcnn:1"
    pod = read_pod(str(path), (), image=None, memory="8Gi")
    assert (pod.image, pod.memory, pod.service_account) == ("qcnn:latest", "8Gi", "qcnn-worker")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert re.fullmatch(r"[\w-]+/\w+", pod.secrets[key])


def test_settings_of_pods_that_the_documents_show_are_right(tmp_path: Path) -> None:
    (shown,) = blocks(ROOT / "docs" / "cluster.md", "yaml")
    (tmp_path / "pod.yaml").write_text(shown.text)
    assert pod_settings(read_file(tmp_path / "pod.yaml", "pod")).node_selector
