"""Short notation for processes of a job, for parametrized tests."""

import re

from qcnn.jobs.kubernetes.pods import PodProcess

_POD = re.compile(r"(\d)(\w)(?::(\d+))?(!?)(\^?)")


def process(text: str, job: int = 0) -> PodProcess:
    """Parse a process such as "1b:138!".

    That is worker 1 in its second pod, with exit code 138, in a terminating pod. "^" is out of memory.
    """
    matched = _POD.fullmatch(text)
    assert matched
    index, letter, code, terminating, out_of_memory = matched.groups()
    return PodProcess(
        pod=f"worker-{index}",
        uid=f"{job}-{index}{letter}",
        role="worker",
        index=int(index),
        started=True,
        exit_code=int(code) if code else None,
        is_terminating=bool(terminating),
        out_of_memory=bool(out_of_memory),
        pending_reason=None,
        unschedulable=False,
        container="process",
    )
