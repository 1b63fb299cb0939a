"""Whether the pod that this process runs in is being taken away (core/v1 Pod)."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from qcnn.jobs.kubernetes.api import PODS, Api

logger = logging.getLogger("qcnn")


class OwnPod:
    """Watches a pod in a thread until this process ends, so that `is_going` is known without a request."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._is_going = threading.Event()
        threading.Thread(target=self._run, name=f"watch of {name}", daemon=True).start()

    @property
    def is_going(self) -> bool:
        """Whether the pod is being taken away."""
        return self._is_going.is_set()

    def _run(self) -> None:
        try:
            for pods in self._api.watch(PODS, fieldSelector=f"metadata.name={self._name}"):
                if any(map(is_going, pods.values())):
                    self._is_going.set()
                    return
        except Exception as error:  # Whatever it is: the training goes on without this knowledge.
            logger.warning("an eviction of this pod would not be seen: %s", error)


def is_going(pod: Mapping[str, Any]) -> bool:
    """Whether a pod, as the API returns it, is being deleted, or ended by its node (drained, preempted, out of memory).

    Where a backend terminates a run, its pods stay: Argo only sends a signal to their processes.
    """
    conditions = pod["status"].get("conditions", ())
    disrupted = any(found["type"] == "DisruptionTarget" and found["status"] == "True" for found in conditions)
    return "deletionTimestamp" in pod["metadata"] or disrupted
