"""How often a training was started again, by what was seen of its pods."""

import itertools

import pytest

from qcnn.jobs.kubernetes.lives import Lives
from tests.qcnn.jobs.kubernetes.processes import process


def _seen(*moments: str) -> Lives:
    """Return what is known after the pods were looked at; "suspended" and "given up" are said of the job."""
    number = 0
    lives = Lives("job 0")
    for moment in moments:
        if moment == "given up":
            number += 1
            lives = lives.given_up().moved_to(f"job {number}")
            continue
        words = moment.split()
        suspended = "suspended" in words
        lives = lives.see([process(word, number) for word in words if word != "suspended"], suspended=suspended)
    return lives


@pytest.mark.parametrize(
    ("moments", "restarts"),
    [
        (["0a 1a"], 0),
        (["0a 1a", "0a:0 1a:0"], 0),
        # Lost, and back.
        (["0a 1a", "0a 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1a:137", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b 1b:137", "0b:138 1c", "0c 1c"], 2),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0c 1b:138", "0c 1c"], 2),
        # Deleted: told to end, ended, gone, back.
        (["0a 1a", "0a 1a!"], 0),
        (["0a 1a", "0a 1a!", "0a 1a:143!", "0a", "0a 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a:143!", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a!", "0b 1b"], 1),
        # Gone with its node: nobody told it to end.
        (["0a 1a", "0a", "0a 1b"], 1),
        (["0a 1a", "0a:138", "0b", "0b 1b"], 1),
        # Back before the other has noticed; it meets that one.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a:138 1b:138", "0b 1c"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!", "0c 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a", "0b:138 1a:137"], 1),
        # For ever.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a 1c:138", "0a 1d:138"], 3),
        # One node takes both along.
        (["0a 1a", "0a! 1a!", "0a:143! 1a!", "0b 1b"], 1),
        (["0a 1a", "0a! 1a!", "1a!", "0b", "0b 1b"], 1),
        # Two are deleted, one after the other.
        (["0a 1a", "0a 1a!", "0a:138 1b", "0b 1b", "0b! 1b", "0c 1b:138", "0c 1c"], 2),
        # The network between them breaks, and no process is at fault.
        (["0a 1a", "0a:138 1a:138", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:138", "0b 1b", "0b:138 1b:138", "0c 1c"], 2),
        # A port is taken.
        (["0a", "0a:138", "0b:138", "0c:138"], 3),
        (["0a 1a:138", "0a 1b:138", "0a 1c:138"], 3),
        # Held back, and let go on.
        (["0a 1a", "suspended 0a 1a", "suspended 0a! 1a!", "suspended", "suspended 0b 1b", "0b 1b"], 0),
        (["0a 1a", "suspended 0a 1a", "suspended", "", "0b 1b"], 0),
        (["0a 1a", "0a:138 1a!", "suspended 0a:138! 1a!", "suspended", "0b 1b"], 0),
        (["0a 1a", "0a 1a:137", "0a 1b", "suspended 0a! 1b!", "suspended", "0b 1c"], 1),
        (["0a 1a", "suspended 0a! 1a!", "suspended", "0b 1b", "0b 1b:137"], 1),
        # The operator takes the deleted pod for one that has failed, ends the others, and is given the job anew.
        (["0a 1a", "0a 1a!", "given up"], 1),
        (["0a 1a", "0a 1a!", "0a! 1a!", "0a:143! 1a:143!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a! 1a!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a 1a!", "0a 1b", "0a:138 1b", "0b 1b", "0b 1b!", "0b! 1b!", "given up", "0c 1c"], 2),
        (["0a 1a", "0a 1a!", "0a! 1a!", "given up", "0b 1b", "0b 1b:137", "0b:138 1c"], 2),
        (
            [
                "0a 1a 2a",
                "0a 1a:137 2a",
                "0a:138 1b 2a",
                "0b 1b 2a!",
                "0b! 1b! 2a!",
                "given up",
                "0c 1c 2b",
                "0c 1c:137 2b",
            ],
            2,
        ),
        (["given up", "0a 1a"], 1),
        (["0a 1a", "given up", "0b 1b", "given up"], 2),
        # All was done: who is left is told to end.
        (["0a 1a", "0a:0 1a", "0a:0 1a!", "0a:0 1a:143!"], 0),
    ],
)
def test_restarts_follow_from_what_was_seen(moments: list[str], restarts: int) -> None:
    assert _seen(*moments).restarts == restarts


@pytest.mark.parametrize(
    "story",
    [
        ["0a 1a", "0a 1a!", "0a 1a:143!", "0a:138 1a:143!", "0a:138", "0b", "0b 1b"],
        ["0a 1a", "0a! 1a!", "0a:143! 1a!", "1a!", "0b 1a:143!", "0b", "0b 1b"],
    ],
)
def test_one_deletion_counts_once_however_little_of_it_is_seen(story: list[str]) -> None:
    first, *middle, last = story
    for length in range(len(middle) + 1):
        for moments in itertools.combinations(middle, length):
            assert _seen(first, *moments, last).restarts == 1, moments


def test_the_loss_that_is_one_too_many_is_named() -> None:
    lives = _seen("0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0b:137 1b:138")
    assert lives.one_too_many(2) is None
    blamed = [lives.one_too_many(allowed) for allowed in (1, 0)]
    assert [loss.process if loss else None for loss in blamed] == ["worker 0", "worker 1"]


def test_who_takes_the_place_of_what_was_lost_has_returned() -> None:
    assert _seen("0a 1a").returned(process("1b", 0))
    assert not _seen("0a 1a").returned(process("1a", 0))
    assert not _seen("0a 1a", "suspended 0a! 1a!").returned(process("1b", 0))
