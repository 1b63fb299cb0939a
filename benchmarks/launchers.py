"""What launchers that watch ask of the API server: python -m benchmarks.launchers, on the cluster of KUBECONFIG.

The namespace must have the accounts of deploy/rbac.yaml, and the cluster the image qcnn:latest.
"""

import collections
import threading
import time
from typing import Any

import kubernetes.client
from tabulate import tabulate

from components.image import IMAGE
from components.train.job import Job, Pod
from components.train.tfjobs.access import own_namespace
from components.train.tfjobs.identity import Identity
from components.train.tfjobs.launcher import launch
from components.train.tfjobs.manifest import Policy
from trainer.errors import QcnnError

LAUNCHERS = 20
# Of which the first are not counted: the jobs start in them.
SECONDS, STARTING = 120, 30


def main() -> None:
    """Let launchers follow jobs that do nothing, and count their requests."""
    asked: collections.Counter[str] = collections.Counter()
    as_it_is = kubernetes.client.ApiClient.call_api

    def counted(self: Any, path: str, method: str, *arguments: Any, **options: Any) -> Any:
        watched = ("watch", "true") in options.get("query_params", ())
        asked["watch" if watched else "log" if path.endswith("/log") else method] += 1
        return as_it_is(self, path, method, *arguments, **options)

    kubernetes.client.ApiClient.call_api = counted
    threads = [threading.Thread(target=_follow, args=(number,), daemon=True) for number in range(LAUNCHERS)]
    for thread in threads:
        thread.start()
    time.sleep(STARTING)
    asked.clear()
    time.sleep(SECONDS - STARTING)
    counts = dict(asked)
    rows = [(kind, f"{count / (SECONDS - STARTING) / LAUNCHERS:.3f}") for kind, count in sorted(counts.items())]
    total = sum(counts.values()) / (SECONDS - STARTING) / LAUNCHERS
    print(f"{LAUNCHERS} launchers, requests a second of each:\n")
    print(tabulate([*rows, ("all", f"{total:.3f}")]))
    for thread in threads:
        thread.join()


def _follow(number: int) -> None:
    argv = ("python", "-c", f"import time; time.sleep({SECONDS})")
    pod = Pod(image=IMAGE, service_account="qcnn-worker", cpu="10m", memory="64Mi")
    job = Job(argv=argv, replicas={"worker": 2}, restarts=0, hang_seconds=60, pod=pod)
    try:
        launch(job, Identity(f"watched-{time.time_ns()}", "train", number), own_namespace(), Policy(keep_seconds=0))
    except QcnnError as error:
        print(error)


if __name__ == "__main__":
    main()
