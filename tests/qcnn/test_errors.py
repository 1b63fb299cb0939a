"""What a message quotes of what was given."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qcnn import errors
from qcnn.errors import QcnnError, format_value, single_line
from qcnn.targets.errors import StepError


def kinds(kind: type[QcnnError] = QcnnError) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        # One of another signature hands its message on.
        if "__init__" not in vars(narrower):
            yield from kinds(narrower)


@pytest.mark.parametrize("kind", [*kinds(), StepError])
def test_every_error_is_one_line_that_quotes_200_characters_at_most(kind: type[Exception]) -> None:
    path = "/a/folder/" * 1000 + "end"
    message = str(kind(f"runs: cannot be read. Given: {path}\n\x1b[31m{path}"))
    what, _, value = message.partition("Given: ")
    assert what == "runs: cannot be read. "
    assert len(value) == 200
    # The end of a path tells most.
    assert (value[:10], value[-4:]) == ("/a/folder/", "/end")
    assert message.isprintable()
    assert str(kind("no value at all")) == "no value at all"
    assert str(kind("short. Given: two  spaces")) == "short. Given: two  spaces"
    assert len(str(kind("x" * 10**6))) == 1000


@pytest.mark.parametrize(
    "value", [None, True, 8, -1.5, "text", "it's", b"x", [1, [2]], {"a": [1, "b"]}, (1, 2), (21,), (), [], {}, ""]
)
def test_a_small_value_is_quoted_as_python_writes_it(value: object) -> None:
    assert format_value(value) == repr(value)


class Unwritable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def endless() -> list[Any]:
    value: list[Any] = [1]
    for _ in range(80):
        value = [value] * 9
    return value


def in_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


@pytest.mark.parametrize(
    ("value", "beginning"),
    [
        ("x" * 10**7, "'xxxx"),
        (b"x" * 10**7, "b'xxxx"),
        (list(range(10**6)), "[0, 1, 2, "),
        (dict.fromkeys(range(10**6)), "{0: None, 1: None"),
        (frozenset({"only"}), "{'only'"),
        (endless(), "[[[[[["),
        (in_itself(), "{'again': {'again': {"),
        (10**5000, "an integer of 16610 bits"),
        (Unwritable(), "an object of Unwritable without text"),
    ],
    ids=lambda value: format_value(value)[:20],
)
def test_of_a_large_value_no_more_is_written_than_is_quoted(value: object, beginning: str) -> None:
    assert format_value(value).startswith(beginning)
    assert len(format_value(value)) <= errors.MOST_QUOTED


def test_what_others_say_becomes_one_line() -> None:
    said = ValueError("first\n    second\r\n\tthird\x07 \ud800")
    assert single_line(said) == r"first second third\x07 \ud800"
    assert len(single_line("y" * 10**6)) == 200


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://name:password@host/a", "https://***@host/a"),
        ("to s3://password@bucket: no", "to s3://***@bucket: no"),
        ("http://a:b@c@host", "http://***@host"),
        ("gs://bucket/a@b", "gs://bucket/a@b"),
        ("registry/qcnn@sha256:0", "registry/qcnn@sha256:0"),
        ("https://host?to=a@b", "https://host?to=a@b"),
    ],
)
def test_no_message_holds_a_password_of_an_address(text: str, shown: str) -> None:
    assert (single_line(text), format_value(text), str(QcnnError(f"{text}. Given: {text}"))) == (
        shown,
        repr(shown),
        f"{shown}. Given: {shown}",
    )


@pytest.mark.parametrize("given_in", [lambda text: text, lambda text: [text], lambda text: {"a": text}, str.encode])
def test_a_password_that_is_longer_than_what_is_quoted_is_hidden(given_in: Callable[[str], object]) -> None:
    shown = format_value(given_in(f"ftp://user:{'p' * 300}@host/a"))
    assert "pp" not in shown
    assert "ftp://***@host/a" in shown
