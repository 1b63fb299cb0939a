"""Settings of KFP runs, and the requests that create runs and schedules."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.targets.compiled_pipeline import PipelineSource
from qcnn.targets.errors import suppress_output
from qcnn.targets.kubeflow.client import KfpBackend, KfpConnection, translate_errors
from qcnn.targets.settings import setting

EXPERIMENT = "qcnn"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(PipelineSource, KfpConnection):
    """Settings of a KFP run. The backend resolves values of None."""

    experiment: str = setting(
        "KFP experiment of the run. Created if it does not exist.",
        EXPERIMENT,
        variables=("KF_PIPELINES_DEFAULT_EXPERIMENT_NAME",),
        metavar="NAME",
    )
    run_name: str | None = setting("Name of the run.", None, shown="pipeline name and time", metavar="NAME")
    pipeline_root: str | None = setting(
        "Root folder of the artifacts, such as gs://BUCKET/FOLDER.", None, metavar="URI"
    )
    service_account: str | None = setting("Kubernetes service account of the steps.", None, metavar="NAME")
    caching: bool | None = setting(
        "Override step caching for all steps.", None, shown="as compiled: on, except for training"
    )


def request(
    documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], name: str, settings: RunSettings
) -> dict[str, Any]:
    """Return the request that runs a compiled pipeline, as API fields.

    Source: Run in backend/api/v2beta1/run.proto. `experiment` is a name, because only the backend can resolve its ID.

    Args:
        documents: Documents of the compiled pipeline.
        arguments: Pipeline arguments.
        name: Name of the run.
        settings: Settings of the run.
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
    backend: KfpBackend,
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    settings: RunSettings,
) -> str:
    """Run a compiled pipeline and return the ID of the run.

    Args:
        backend: KFP backend.
        documents: Documents of the compiled pipeline.
        arguments: Pipeline arguments.
        name: Name of the run.
        settings: Settings of the run.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    with tempfile.TemporaryDirectory() as folder, translate_errors(backend.address), suppress_output():
        run = backend.client.create_run_from_pipeline_package(
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
    backend: KfpBackend,
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    settings: RunSettings,
    times: Mapping[str, Any],
) -> str:
    """Schedule a compiled pipeline and return the ID of the schedule.

    Args:
        backend: KFP backend.
        documents: Documents of the compiled pipeline.
        arguments: Pipeline arguments.
        name: Name of the schedule.
        settings: Settings of its runs.
        times: Trigger and mode, as arguments of the KFP client.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    with tempfile.TemporaryDirectory() as folder, translate_errors(backend.address), suppress_output():
        owner = backend.client.create_experiment(settings.experiment, namespace=settings.namespace)
        created = backend.client.create_recurring_run(
            experiment_id=owner.experiment_id,
            job_name=name,
            pipeline_package_path=_package(documents, folder),
            params=dict(arguments),
            pipeline_root=settings.pipeline_root,
            enable_caching=settings.caching,
            service_account=settings.service_account,
            **times,
        )
    return str(created.recurring_run_id)


def _package(documents: Sequence[Mapping[str, Any]], folder: str) -> str:
    """Write a compiled pipeline to a folder and return its path. JSON is valid YAML."""
    path = Path(folder, "pipeline.yaml")
    path.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    return str(path)
