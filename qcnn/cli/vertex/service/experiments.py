"""Experiments of Vertex AI: what its console compares runs by.

As google-cloud-aiplatform 1.165 makes them (metadata/experiment_resources.py: Experiment.get_or_create,
_log_experiment_loggable): an experiment is a context of the metadata store, those of its runs are its children.
"""

import time

from qcnn.cli.following import INTERVAL
from qcnn.cli.target_errors import BackendError, UnavailableError
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.service.refusals import AlreadyExistsError, NotFoundError
from qcnn.cli.vertex.service.runs import ENDED, get_run, state_of

_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}
# Vertex AI makes the context of a run some seconds after the run.
_PATIENCE = 60.0


def add_to_experiment(vertex: Vertex, experiment: str, run: str) -> str:
    """Add a run to an experiment, which is created if there is none; return one line with why not, or an empty text."""
    store = f"{vertex.place.parent}/metadataStores/default"
    try:
        _ensure(vertex, store, experiment)
        context = _context(vertex, run)
        parent = f"{store}/contexts/{experiment}"
        vertex.ask("MetadataService.add_context_children", context=parent, child_contexts=[context])
    except BackendError as error:
        return str(error)
    return ""


def _ensure(vertex: Vertex, store: str, experiment: str) -> None:
    try:
        vertex.ask("MetadataService.get_metadata_store", name=store)
    except NotFoundError:
        vertex.finish(
            "MetadataService.create_metadata_store",
            parent=vertex.place.parent,
            metadata_store_id="default",
            metadata_store={},
        )
    try:
        context = {"display_name": experiment, **_SCHEMA}
        vertex.ask("MetadataService.create_context", parent=store, context=context, context_id=experiment)
    except AlreadyExistsError:
        return


def _context(vertex: Vertex, run: str) -> str:
    """Return the name of a run's context, once there is one."""
    end = time.monotonic() + _PATIENCE
    while True:
        found = get_run(vertex, run)
        if name := found.job_detail.pipeline_run_context.name:
            return str(name)
        if state_of(found) in ENDED or time.monotonic() > end:
            raise UnavailableError(f"run: Vertex AI has made no context of it in its metadata store. Given: {run}")
        time.sleep(INTERVAL)
