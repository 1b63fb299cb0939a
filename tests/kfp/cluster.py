"""What a run has in the backend's cluster, for tests that KUBECONFIG gives access to that."""

import contextlib

from cli.backend import SINGLE_USER
from components.train.tfjobs.api import PODS, TFJOBS, Api
from components.train.tfjobs.identity import RUN_LABEL, run_label


def steps_log(run: str) -> str:
    """Return what the user's containers of a run have printed."""
    with contextlib.closing(Api(SINGLE_USER)) as api:
        names = [pod["metadata"]["name"] for pod in api.find(PODS, labelSelector=f"pipeline/runid={run}")]
        lines = [api.log(name, "main", "", follow=False) for name in names if "impl" in name]
        return "".join(f"{text}\n" for log in lines for _, text in log)


def tfjobs(run: str) -> dict[str, str]:
    """Return the names of a run's TFJobs, by their uids."""
    with contextlib.closing(Api(SINGLE_USER)) as api:
        found = api.find(TFJOBS, labelSelector=f"{RUN_LABEL}={run_label(run)}")
        return {job["metadata"]["uid"]: job["metadata"]["name"] for job in found}
