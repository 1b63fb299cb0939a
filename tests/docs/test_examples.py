"""Tests of the files in examples/ and of the YAML files shown in the documents."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcnn.cli.options.experiment import ExperimentOptions
from qcnn.cli.options.search import SearchOptions, read_study
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.vertex.machines import CustomJobMachines, machine_for, vertex_settings
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.studies.tables import DATASETS, StudyTables
from qcnn.targets.settings import PodFields
from qcnn.yaml_files import read_file
from tests.docs.documents import ROOT, blocks

EXAMPLES = ROOT / "examples"
EXPERIMENTS = sorted({*EXAMPLES.glob("*.yaml")} - {EXAMPLES / "study.yaml", EXAMPLES / "pod.yaml"})


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_compiled_pipeline_has_defaults_of_experiment(path: Path, tmp_path: Path) -> None:
    spec = compile_qcnn(KUBEFLOW, tmp_path / "qcnn.yaml", defaults=from_mapping(read_file(path)).model_dump())
    parameters = spec.root.input_definitions.parameters
    for name, value in read_file(path).items():
        if name == "options":
            compiled = dict(parameters[name].default_value.struct_value)
            # Mappings in a file, such as noise, are text in the pipeline.
            options = from_mapping(read_file(path)).options.model_dump()
            assert {key: compiled[key] for key in value} == {key: options[key] for key in value}
            assert all(compiled[key] == each for key, each in value.items() if not isinstance(each, dict))
        else:
            default = parameters[name].default_value
            assert getattr(default, default.WhichOneof("kind")) == value


def test_first_example_is_default_experiment() -> None:
    assert from_mapping(read_file(EXAMPLES / "first.yaml")) == ExperimentConfig()


def _trials(path: Path) -> Sequence[ExperimentConfig]:
    tables = StudyTables(path.parent / DATASETS)
    return read_study(SearchOptions((), (), None), ExperimentOptions(str(path), {}), tables).trials


def test_studies_have_expected_trials(tmp_path: Path) -> None:
    searched, repeated = blocks(ROOT / "docs" / "studies.md", "yaml")
    (tmp_path / "study.yaml").write_text(searched.text)
    assert len(_trials(tmp_path / "study.yaml")) == 20
    (tmp_path / "rows.yaml").write_text(repeated.text)
    trials = _trials(tmp_path / "rows.yaml")
    assert [trial.seed for trial in trials] == [0, 1, 2, 3, 4] * 2
    assert [trial.options.baseline for trial in trials] == [False] * 5 + [True] * 5
    trials = _trials(EXAMPLES / "study.yaml")
    assert len(trials) == 12
    assert {trial.model for trial in trials} == {"hybrid", "deep"}
    assert all(0.001 <= trial.learning_rate <= 0.1 for trial in trials)


def test_pod_example_applies_to_pipeline_and_tfjob(tmp_path: Path) -> None:
    path = EXAMPLES / "pod.yaml"
    spec = compile_qcnn(KUBEFLOW, tmp_path / "qcnn.yaml", "team/qcnn:1", settings=read_file(path, "pod"))
    container = spec.deployment_spec["executors"]["exec-evaluate"]["container"]
    assert container["image"] == "team/qcnn:1"
    pod = PodFields(pod=read_file(path, "pod"), memory="8Gi").pod_with()
    assert (pod.image, pod.memory, pod.service_account) == ("qcnn:latest", "8Gi", "qcnn-worker")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert re.fullmatch(r"[\w-]+/\w+", pod.secrets[key])


def test_pod_settings_block_is_valid(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "pod-settings.md", "yaml")
    (tmp_path / "pod.yaml").write_text(block.text)
    assert pod_settings(read_file(tmp_path / "pod.yaml", "pod")).spot


def test_pod_settings_table_lists_all_settings() -> None:
    page = (ROOT / "docs" / "pod-settings.md").read_text()
    assert _names_in_tables(page) == set(PodSettings.model_fields)


def _names_in_tables(page: str) -> set[str]:
    """Return the names in the first cells of table rows."""
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", page, re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(cells)))


def test_vertex_settings_block_is_valid_and_table_complete(tmp_path: Path) -> None:
    page = ROOT / "docs" / "vertex.md"
    (block,) = blocks(page, "yaml")
    (tmp_path / "pod.yaml").write_text(block.text)
    pod = pod_settings(read_file(tmp_path / "pod.yaml", "pod"))
    settings = vertex_settings(pod)
    assert machine_for(pod, settings.machine_type).name == "g2-standard-8"
    assert set(CustomJobMachines.model_fields) <= _names_in_tables(page.read_text())
