"""The pipeline of a schedule, parsed strictly into Kubeflow's own PipelineSpec."""

import copy
from pathlib import Path

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from pipelines.scheduled import seeded_by_run
from pipelines.targets import compile_target


def test_only_the_first_step_hears_of_the_run_and_takes_it(tmp_path: Path) -> None:
    compile_target("kubeflow", tmp_path / "qcnn.yaml")
    document, _ = yaml.safe_load_all((tmp_path / "qcnn.yaml").read_text())
    before = copy.deepcopy(document)
    scheduled = json_format.ParseDict(seeded_by_run(document), PipelineSpec(), ignore_unknown_fields=False)
    assert document == before
    step = scheduled.components[scheduled.root.dag.tasks["generate-data"].component_ref.name]
    assert "run" in step.input_definitions.parameters
    given = scheduled.root.dag.tasks["generate-data"].inputs.parameters["run"]
    assert given.runtime_value.constant.string_value == "{{$.pipeline_job_uuid}}"
    del scheduled.root.dag.tasks["generate-data"].inputs.parameters["run"]
    assert scheduled == json_format.ParseDict(before, PipelineSpec())
