"""Format of error messages and of the values that they quote."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qcnn import errors
from qcnn.errors import MAX_MESSAGE_LENGTH, QcnnError, format_value, service_message, single_line
from qcnn.targets.errors import StepError


def kinds(kind: type[QcnnError] = QcnnError) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        # Classes with another signature pass a complete message to their base class.
        if "__init__" not in vars(narrower):
            yield from kinds(narrower)


@pytest.mark.parametrize("kind", [*kinds(), StepError])
def test_error_message_is_single_line_with_short_value(kind: type[Exception]) -> None:
    path = "/a/folder/" * 1000 + "end"
    message = str(kind(f"runs: cannot be read. Given: {path}\n\x1b[31m{path}"))
    what, _, value = message.partition("Given: ")
    assert what == "runs: cannot be read. "
    assert len(value) == 200
    # The end of a path is the most specific part.
    assert (value[:10], value[-4:]) == ("/a/folder/", "/end")
    assert message.isprintable()
    assert str(kind("no value at all")) == "no value at all"
    assert str(kind("short. Given: two  spaces")) == "short. Given: two  spaces"
    assert len(str(kind("x" * 10**6))) == 1000


@pytest.mark.parametrize(
    "value", [None, True, 8, -1.5, "text", "it's", b"x", [1, [2]], {"a": [1, "b"]}, (1, 2), (21,), (), [], {}, ""]
)
def test_format_value_small_value_is_its_repr(value: object) -> None:
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
def test_format_value_large_value_is_truncated(value: object, beginning: str) -> None:
    assert format_value(value).startswith(beginning)
    assert len(format_value(value)) <= errors.MAX_VALUE_LENGTH


def test_single_line_joins_and_escapes_text() -> None:
    error = ValueError("first\n    second\r\n\tthird\x07 \ud800")
    assert single_line(error) == r"first second third\x07 \ud800"
    assert len(single_line("y" * 10**6)) == 200


def test_service_message_keeps_its_end() -> None:
    message = f"exceeded quota{'.' * 400} limited: cpu=4"
    assert service_message(message) == message
    assert str(QcnnError(f"quota: exceeded. Given: {message}", MAX_MESSAGE_LENGTH)).endswith(message)
    assert len(service_message("y" * 10**6)) == MAX_MESSAGE_LENGTH


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("https://name:password@host/a", "https://***@host/a"),
        ("to s3://password@bucket: no", "to s3://***@bucket: no"),
        ("http://a:b@c@host", "http://***@host"),
        ("gs://bucket/a@b", "gs://bucket/a@b"),
        ("registry/qcnn@sha256:0", "registry/qcnn@sha256:0"),
        ("https://host?to=a@b", "https://host?to=a@b"),
    ],
)
def test_messages_redact_credentials_in_uris(text: str, redacted: str) -> None:
    assert (single_line(text), format_value(text), str(QcnnError(f"{text}. Given: {text}"))) == (
        redacted,
        repr(redacted),
        f"{redacted}. Given: {redacted}",
    )


@pytest.mark.parametrize("given_in", [lambda text: text, lambda text: [text], lambda text: {"a": text}, str.encode])
def test_format_value_redacts_before_truncation(given_in: Callable[[str], object]) -> None:
    text = format_value(given_in(f"ftp://user:{'p' * 300}@host/a"))
    assert "pp" not in text
    assert "ftp://***@host/a" in text
