"""The runs of an experiment in a pipelines backend, as rows beside the runs of this machine."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cli.comparison import Run
from cli.errors import BackendError
from cli.kubeflow.backend import Backend, connect
from cli.kubeflow.follow import ENDED
from cli.kubeflow.ml_metadata import Artifact, MetadataStore
from cli.kubeflow.refusals import explained
from cli.kubeflow.runs import find_experiment, pages
from components.tensorboard.step import BACKENDS_OWN
from trainer.config import from_mapping, from_saved
from trainer.errors import ConfigError

if TYPE_CHECKING:
    import kfp_server_api

_METRICS, _MODEL = "system.Metrics", "system.Model"
_FIRST = ("mse", "accuracy")


def experiment_runs(backend: Backend, name: str, metadata_host: str | None) -> list[Run]:
    """Return the runs of an experiment of the backend, but for those that are archived, newest last.

    Without a metadata store they have no metrics; one line on stderr reports that.

    Raises:
        BackendError: there is no such experiment; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    experiment = find_experiment(client, backend, name)
    with explained(backend.address):
        found = list(pages(client.list_runs, "runs", experiment_id=experiment.experiment_id))
    found = sorted((run for run in found if run.storage_state != "ARCHIVED"), key=lambda run: run.created_at)
    store = MetadataStore(client, backend, metadata_host)
    artifacts: dict[str, list[Artifact]] = {}
    try:
        artifacts = {run.run_id: store.artifacts(run.run_id) for run in found}
    except BackendError as error:
        click.echo(f"no metrics: {error}", err=True)
    return [read(run, artifacts.get(run.run_id, [])) for run in found]


def read(run: kfp_server_api.V2beta1Run, artifacts: Sequence[Artifact]) -> Run:
    """Return a run of the API with the artifacts that it has made so far."""
    metrics = {
        name: float(value)
        for artifact in artifacts
        if artifact.type == _METRICS
        # The store keeps them in no order.
        for name, value in sorted(artifact.metadata.items(), key=_place)
        if name not in BACKENDS_OWN and isinstance(value, int | float)
    }
    ended = run.state in ENDED and run.finished_at is not None
    return Run(
        name=run.display_name,
        state=str(run.state).lower(),
        parameters=_parameters(run, artifacts),
        metrics=metrics,
        history=(),
        duration=_seconds(run.finished_at - run.created_at) if ended else None,
    )


def _parameters(run: kfp_server_api.V2beta1Run, artifacts: Sequence[Artifact]) -> dict[str, Any]:
    """Return the words of the experiment that was run, which may differ from those that were submitted.

    A schedule gives each run a seed of its own, a study each trial its words; the artifacts record them.
    """
    tagged = [
        (artifact.type, artifact.metadata["experiment"]) for artifact in artifacts if "experiment" in artifact.metadata
    ]
    of_models = {experiment for kind, experiment in tagged if kind == _MODEL}
    known = of_models or {experiment for _, experiment in tagged}
    submitted = run.runtime_config.parameters if run.runtime_config else None
    recorded = json.loads(known.pop()) if len(known) == 1 else None
    words = recorded or dict(submitted or {})
    try:
        words = (from_saved if recorded else from_mapping)(words).model_dump()
    except ConfigError:
        # The run's first step refuses it too; what was submitted is still worth a row.
        words = dict(words)
    options = words.pop("options", {})
    return {**words, **(options if isinstance(options, dict) else {})}


def _place(item: tuple[str, Any]) -> tuple[int, str]:
    """Return what metrics are sorted by."""
    name, _ = item
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _seconds(time: datetime.timedelta) -> float:
    return round(time.total_seconds(), 3)
