"""Processes of a job in few letters, for tables of cases."""

import re

from qcnn.jobs.kubernetes.pods import PodProcess

_POD = re.compile(r"(\d)(\w)(?::(\d+))?(!?)(\^?)")


def process(text: str, job: int = 0) -> PodProcess:
    """Return what "1b:138!" says: worker 1, its second pod, ended with 138, told to end; "^" is out of memory."""
    matched = _POD.fullmatch(text)
    assert matched
    index, letter, code, told, greedy = matched.groups()
    return PodProcess(
        pod=f"worker-{index}",
        uid=f"{job}-{index}{letter}",
        role="worker",
        index=int(index),
        started=True,
        exit_code=int(code) if code else None,
        is_terminating=bool(told),
        out_of_memory=bool(greedy),
        pending_reason=None,
    )
