"""How a pipeline is run in a backend, and the request that does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.targets.kubeflow.client import Backend, explained
from qcnn.targets.library_output import quiet

if TYPE_CHECKING:
    import kfp

EXPERIMENT = "qcnn"


@dataclasses.dataclass(frozen=True)
class Submission:
    """How a pipeline is run in a backend; what is None is left to the backend."""

    experiment: str = EXPERIMENT
    run_name: str | None = None
    pipeline_root: str | None = None
    service_account: str | None = None
    caching: bool | None = None


def request(
    documents: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    name: str,
    backend: Backend,
    submission: Submission,
) -> dict[str, Any]:
    """Return what runs a compiled pipeline, in the words of the API (backend/api/v2beta1/run.proto, Run).

    `experiment` is the name of the experiment, whose id only the backend knows.
    """
    pipeline, *platform = documents
    root = {"pipeline_root": submission.pipeline_root} if submission.pipeline_root else {}
    account = {"service_account": submission.service_account} if submission.service_account else {}
    return {
        "display_name": name,
        "experiment": submission.experiment,
        "namespace": backend.namespace,
        "pipeline_spec": {"pipeline_spec": pipeline, "platform_spec": platform[0]} if platform else pipeline,
        "runtime_config": {"parameters": dict(arguments), **root},
        "caching": submission.caching,
        **account,
    }


def create(
    client: kfp.Client, package: Path, arguments: Mapping[str, Any], backend: Backend, submission: Submission
) -> str:
    """Run a compiled pipeline, and return the id of the run.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    with explained(backend.address), quiet():
        run = client.create_run_from_pipeline_package(
            str(package),
            arguments=dict(arguments),
            run_name=submission.run_name,
            experiment_name=submission.experiment,
            namespace=backend.namespace,
            pipeline_root=submission.pipeline_root,
            enable_caching=submission.caching,
            service_account=submission.service_account,
        )
    return str(run.run_id)
