"""What is done about the processes of a job, by how they ended."""

import pytest

from qcnn.jobs.local.verdict import Action, Seen, explain, judge

HANG = 60.0
KILLED, ABORTED, LOST_A_PEER, OWN_FAULT = -9, -6, 138, 1


def _seen(*exit_codes: int | None, silent_for: float = 0) -> list[Seen]:
    return [Seen(f"worker {index}", code, silent_for) for index, code in enumerate(exit_codes)]


def _by_role(silent_for: float = 0, **exit_codes: int | None) -> list[Seen]:
    """The processes of strategy parameter_server."""
    return [
        Seen(role, code, silent_for, role != "chief", role in ("worker", "evaluator"))
        for role, code in exit_codes.items()
    ]


@pytest.mark.parametrize(
    ("processes", "action", "blamed"),
    [
        (_seen(None, None), Action.GO_ON, None),
        (_seen(None, 0), Action.GO_ON, None),
        (_seen(0, 0), Action.SUCCEEDED, None),
        (_seen(None, OWN_FAULT), Action.FAILED, "worker 1"),
        (_seen(0, 127), Action.FAILED, "worker 1"),
        (_seen(0, 128), Action.LOST, "worker 1"),
        (_seen(KILLED, None), Action.LOST, "worker 0"),
        (_seen(LOST_A_PEER, None), Action.LOST, "worker 0"),
        # Of those that ended at the same moment.
        (_seen(LOST_A_PEER, KILLED), Action.LOST, "worker 1"),
        (_seen(KILLED, LOST_A_PEER), Action.LOST, "worker 0"),
        (_seen(LOST_A_PEER, KILLED, OWN_FAULT), Action.FAILED, "worker 2"),
        (_seen(KILLED, KILLED), Action.LOST, "worker 0"),
        # Silent.
        (_seen(None, None, silent_for=HANG), Action.GO_ON, None),
        (_seen(None, None, silent_for=HANG + 1), Action.LOST, "worker 0"),
        (_seen(0, None, silent_for=HANG + 1), Action.LOST, "worker 1"),
        (_seen(0, 0, silent_for=HANG + 1), Action.SUCCEEDED, None),
        (_seen(None, OWN_FAULT, silent_for=HANG + 1), Action.FAILED, "worker 1"),
        # The training is over with its chief, whatever became of the others.
        (_by_role(chief=0, worker=None, ps=None), Action.SUCCEEDED, None),
        (_by_role(chief=0, worker=KILLED, ps=LOST_A_PEER, evaluator=OWN_FAULT), Action.SUCCEEDED, None),
        (_by_role(chief=None, worker=None, ps=None, evaluator=0), Action.GO_ON, None),
        # Some are not needed by the others.
        (_by_role(chief=None, worker=KILLED, ps=None), Action.ONE_LOST, "worker"),
        (_by_role(chief=None, worker=LOST_A_PEER, evaluator=KILLED), Action.ONE_LOST, "evaluator"),
        (_by_role(chief=None, worker=None, ps=None, silent_for=HANG + 1), Action.LOST, "chief"),
        (_by_role(chief=0, worker=0, evaluator=None, silent_for=HANG + 1), Action.SUCCEEDED, None),
        (_by_role(chief=LOST_A_PEER, worker=KILLED, ps=None), Action.LOST, "chief"),
        (_by_role(chief=LOST_A_PEER, worker=LOST_A_PEER, ps=KILLED), Action.LOST, "ps"),
        (_by_role(chief=None, worker=OWN_FAULT, ps=KILLED), Action.FAILED, "worker"),
    ],
)
def test_a_verdict_follows_from_how_processes_ended(processes: list[Seen], action: Action, blamed: str | None) -> None:
    verdict = judge(processes, HANG)
    assert (verdict.action, verdict.process and verdict.process.name) == (action, blamed)


@pytest.mark.parametrize(
    ("exit_code", "last_line", "said"),
    [
        (None, "still here", "worker 0 gave no sign of life for 60 s"),
        (KILLED, "still here", "worker 0 was killed by SIGKILL"),
        (ABORTED, "unknown flag", "worker 0 was killed by SIGABRT: unknown flag"),
        (ABORTED, "", "worker 0 was killed by SIGABRT"),
        (LOST_A_PEER, "gone", "worker 0 ended with exit code 138: gone"),
        (LOST_A_PEER, "error: gone. Given: /", "worker 0 ended with exit code 138: gone. Given: /"),
        (OWN_FAULT, "", "worker 0 ended with exit code 1: it printed nothing"),
    ],
)
def test_how_a_process_ended_is_one_line(exit_code: int | None, last_line: str, said: str) -> None:
    assert explain(Seen("worker 0", exit_code, 61), last_line, HANG) == said
