"""The runs of an experiment in a pipelines backend, as rows beside the runs of this machine."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from qcnn.cli.run_table import Run
from qcnn.targets.artifacts import Artifact, metrics_of, words_of
from qcnn.targets.errors import BackendError
from qcnn.targets.kubeflow.client import Backend, connect, explained
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import ENDED, creation_time, find_experiment, pages

if TYPE_CHECKING:
    import kfp_server_api


def experiment_runs(name: str, backend: Backend, metadata_host: str | None) -> list[Run]:
    """Return the runs of an experiment of the backend, but for those that are archived, newest last.

    Without a metadata store they have no metrics; one line on stderr reports that.

    Raises:
        BackendError: there is no such experiment; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    experiment = find_experiment(client, backend, name)
    with explained(backend.address):
        found = list(pages(client.list_runs, "runs", experiment_id=experiment.experiment_id))
    found = sorted((run for run in found if run.storage_state != "ARCHIVED"), key=creation_time)
    store = MetadataStore(client, backend, metadata_host)
    artifacts: dict[str, list[Artifact]] = {}
    try:
        artifacts = {run.run_id: store.artifacts(run.run_id) for run in found}
    except BackendError as error:
        click.echo(f"no metrics: {error}", err=True)
    return [read(run, artifacts.get(run.run_id, [])) for run in found]


def read(run: kfp_server_api.V2beta1Run, artifacts: Sequence[Artifact]) -> Run:
    """Return a run of the API with the artifacts that it has made so far."""
    ended = run.state in ENDED and run.finished_at is not None and run.created_at is not None
    return Run(
        name=run.display_name,
        state=str(run.state).lower(),
        parameters=words_of(artifacts, (run.runtime_config.parameters if run.runtime_config else None) or {}),
        metrics=metrics_of(artifacts),
        history=(),
        duration=_seconds(run.finished_at - run.created_at) if ended else None,
    )


def _seconds(time: datetime.timedelta) -> float:
    return round(time.total_seconds(), 3)
