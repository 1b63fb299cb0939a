"""The files of examples/, and those that the documents show, compiled or read as a user would have it done."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcnn.cli.options.experiment import Words
from qcnn.cli.options.search import SearchFlags, read_study
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping, read_file
from qcnn.jobs.pod_settings import Pod, pod_settings
from qcnn.jobs.vertex.machines import Settings, machine_for, vertex_settings
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.targets.settings import PodFields
from tests.docs.documents import ROOT, blocks

EXAMPLES = ROOT / "examples"
EXPERIMENTS = sorted({*EXAMPLES.glob("*.yaml")} - {EXAMPLES / "study.yaml", EXAMPLES / "pod.yaml"})


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_an_experiment_is_compiled_with_its_words_as_defaults(path: Path, tmp_path: Path) -> None:
    spec = compile_qcnn(KUBEFLOW, tmp_path / "qcnn.yaml", defaults=from_mapping(read_file(path)).model_dump())
    parameters = spec.root.input_definitions.parameters
    for name, value in read_file(path).items():
        if name == "options":
            given = dict(parameters[name].default_value.struct_value)
            # What may be a mapping in a file is text elsewhere.
            asked = from_mapping(read_file(path)).options.model_dump()
            assert {key: given[key] for key in value} == {key: asked[key] for key in value}
            assert all(given[key] == each for key, each in value.items() if not isinstance(each, dict))
        else:
            default = parameters[name].default_value
            assert getattr(default, default.WhichOneof("kind")) == value


def test_the_first_one_is_what_make_run_trains() -> None:
    assert from_mapping(read_file(EXAMPLES / "first.yaml")) == ExperimentConfig()


def _trials(path: Path) -> Sequence[ExperimentConfig]:
    return read_study(SearchFlags((), (), None), Words(str(path), {})).trials


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
    spec = compile_qcnn(KUBEFLOW, tmp_path / "qcnn.yaml", "team/qcnn:1", settings=read_file(path, "pod"))
    container = spec.deployment_spec["executors"]["exec-evaluate"]["container"]
    assert container["image"] == "team/qcnn:1"
    pod = PodFields(pod=read_file(path, "pod"), memory="8Gi").pod_with()
    assert (pod.image, pod.memory, pod.service_account) == ("qcnn:latest", "8Gi", "qcnn-worker")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert re.fullmatch(r"[\w-]+/\w+", pod.secrets[key])


def test_settings_of_pods_that_the_documents_show_are_right(tmp_path: Path) -> None:
    (shown,) = blocks(ROOT / "docs" / "cluster.md", "yaml")
    (tmp_path / "pod.yaml").write_text(shown.text)
    assert pod_settings(read_file(tmp_path / "pod.yaml", "pod")).spot


def test_every_setting_of_pods_is_in_the_table_of_the_documents() -> None:
    named = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", (ROOT / "docs" / "cluster.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(named))) == set(Pod.model_fields)


def test_settings_for_vertex_that_the_documents_show_are_right_and_every_key_is_in_their_table(tmp_path: Path) -> None:
    page = ROOT / "docs" / "vertex.md"
    (shown,) = blocks(page, "yaml")
    (tmp_path / "pod.yaml").write_text(shown.text)
    pod = pod_settings(read_file(tmp_path / "pod.yaml", "pod"))
    settings = vertex_settings(pod)
    assert machine_for(pod, settings.machine_type).name == "g2-standard-8"
    named = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", page.read_text(), re.MULTILINE)
    assert set(Settings.model_fields) <= set(re.findall(r"\w+", " ".join(named)))
