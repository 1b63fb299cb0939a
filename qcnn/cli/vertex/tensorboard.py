"""qcnn tensorboard --target vertex: the logs of runs on Vertex AI, also of runs that have not ended."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from qcnn.cli.options.settings import place_options
from qcnn.cli.tensorboard import tensorboard_command
from qcnn.errors import ArtifactError
from qcnn.jobs.vertex.location import Place
from qcnn.targets.artifacts import Logs, logs_of
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.runs import ENDED, artifacts_of, find_run, get_run, is_id, list_runs, state_of


def logs_of_runs(ids: Sequence[str], experiment: str | None, names: Sequence[str], *, place: Place) -> list[Logs]:
    """Return the logs of the runs with these ids, and of the runs of an experiment with these ids or names (none: all).

    Raises:
        BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        ArtifactError: nothing of what was asked for has logs.
    """
    vertex = Vertex(place)
    runs = [find_run(vertex, identity) for identity in ids]
    if experiment:
        known = list_runs(vertex, experiment)
        for name in names:
            if not any(name in (id_of(run), run.display_name) for run in known):
                shown = ", ".join(sorted({run.display_name for run in known})) or "none"
                raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
        # A list leaves out what the steps have made.
        chosen = [run for run in known if not names or id_of(run) in names or run.display_name in names]
        runs += [get_run(vertex, id_of(run)) for run in chosen]
    counts = collections.Counter(run.display_name for run in runs)
    found: list[Logs] = []
    for run in runs:
        name = run.display_name.replace("/", "-") if counts[run.display_name] == 1 else id_of(run)
        found += logs_of(name, id_of(run), artifacts_of(run), ended=state_of(run) in ENDED)
    if (runs or experiment) and not found:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return found


tensorboard = tensorboard_command("Vertex AI", is_id, logs_of_runs, place_options)
