"""How a pipeline is run in a backend: settings, and the requests that run and schedule it."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.targets.compiled_pipeline import PipelineSource
from qcnn.targets.errors import suppress_output
from qcnn.targets.kubeflow.client import KfpConnection, translate_errors
from qcnn.targets.settings import setting

if TYPE_CHECKING:
    import kfp

EXPERIMENT = "qcnn"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(PipelineSource, KfpConnection):
    """How a pipeline is run in a backend; what is None is left to the backend."""

    experiment: str = setting(
        "Experiment of the backend that the run belongs to; created if there is none.",
        EXPERIMENT,
        variables=("KF_PIPELINES_DEFAULT_EXPERIMENT_NAME",),
        metavar="NAME",
    )
    run_name: str | None = setting("Name of the run.", None, shown="the pipeline and the time", metavar="NAME")
    pipeline_root: str | None = setting("Where artifacts go, such as gs://BUCKET/FOLDER.", None, metavar="URL")
    service_account: str | None = setting("Kubernetes account that the steps run as.", None, metavar="NAME")
    caching: bool | None = setting("Caching of all steps.", None, shown="as compiled, on but for training")


def request(
    documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], name: str, settings: RunSettings
) -> dict[str, Any]:
    """Return what runs a compiled pipeline, in the words of the API (backend/api/v2beta1/run.proto, Run).

    `experiment` is the name of the experiment, whose id only the backend knows.
    """
    pipeline, *platform = documents
    root = {"pipeline_root": settings.pipeline_root} if settings.pipeline_root else {}
    account = {"service_account": settings.service_account} if settings.service_account else {}
    return {
        "display_name": name,
        "experiment": settings.experiment,
        "namespace": settings.namespace,
        "pipeline_spec": {"pipeline_spec": pipeline, "platform_spec": platform[0]} if platform else pipeline,
        "runtime_config": {"parameters": dict(arguments), **root},
        "caching": settings.caching,
        **account,
    }


def create_run(
    client: kfp.Client,
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    settings: RunSettings,
) -> str:
    """Run a compiled pipeline, and return the id of the run.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    with tempfile.TemporaryDirectory() as folder, translate_errors(settings.address), suppress_output():
        run = client.create_run_from_pipeline_package(
            _package(documents, folder),
            arguments=dict(arguments),
            run_name=name,
            experiment_name=settings.experiment,
            namespace=settings.namespace,
            pipeline_root=settings.pipeline_root,
            enable_caching=settings.caching,
            service_account=settings.service_account,
        )
    return str(run.run_id)


def create_schedule(
    client: kfp.Client,
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    settings: RunSettings,
    times: Mapping[str, Any],
) -> str:
    """Schedule a compiled pipeline, and return the id of the schedule; `times` is when it runs, as the client has it.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    with tempfile.TemporaryDirectory() as folder, translate_errors(settings.address), suppress_output():
        owner = client.create_experiment(settings.experiment, namespace=settings.namespace)
        made = client.create_recurring_run(
            experiment_id=owner.experiment_id,
            job_name=name,
            pipeline_package_path=_package(documents, folder),
            params=dict(arguments),
            pipeline_root=settings.pipeline_root,
            enable_caching=settings.caching,
            service_account=settings.service_account,
            **times,
        )
    return str(made.recurring_run_id)


def _package(documents: Sequence[Mapping[str, Any]], folder: str) -> str:
    """Write a compiled pipeline to a folder, and return its path; what is JSON is YAML."""
    path = Path(folder, "pipeline.yaml")
    path.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    return str(path)
