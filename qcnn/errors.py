"""Error classes with single-line messages, and the formatting of values in messages."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

# Maximum characters of a quoted value, which the user gave, and of the text before it. The message of a service has the
# longer limit too: a quota message, for example, ends with the requested, used and allowed amounts.
MAX_VALUE_LENGTH = 200
MAX_MESSAGE_LENGTH = 1000
_GIVEN = "Given: "
_CUT = " ... "
# Larger integers are described by their size. Python raises an error for more than 4300 digits.
_MAX_BITS = 3 * MAX_VALUE_LENGTH
# User name and password in a URL.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#@]*(?:@[^/\s?#@]*)*@")
_HIDDEN = "***@"
_LINE_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class QcnnError(Exception):
    """Error with a known cause and a single-line message, which is truncated.

    Args:
        message: Message, whose value follows "Given: ".
        max_value_length: Maximum characters of the value; `MAX_MESSAGE_LENGTH` for the message of a service.
    """

    def __init__(self, message: str, max_value_length: int = MAX_VALUE_LENGTH) -> None:
        super().__init__(truncate_message(message, max_value_length))


class ConfigError(QcnnError):
    """Error of an invalid experiment, setting or argument."""


class ArtifactError(QcnnError):
    """Error of a dataset, checkpoint or model folder that is missing, damaged, or of another experiment."""


class WriteError(ArtifactError):
    """Error of a file or folder that cannot be written, for example on a full disk."""


class TrainingError(QcnnError):
    """Permanent error of training: a retry would fail in the same way."""


class RetryableError(QcnnError):
    """Retryable error of training, such as a failed peer or a port in use: a restart resumes training."""


def truncate_message(message: str, max_value_length: int = MAX_VALUE_LENGTH) -> str:
    """Return a message in one line, with the middle of its text and of the value at its end omitted if too long."""
    what, mark, value = redact_credentials(message).partition(_GIVEN)
    return _shorten(what, MAX_MESSAGE_LENGTH) + mark + _shorten(value, max_value_length)


def as_clause(message: object) -> str:
    """Return an error message as a clause for another message, which ends with a different value.

    >>> as_clause("qubits: must be at least 4. Given: 3")
    'qubits: must be at least 4 (given: 3)'
    """
    what, mark, value = str(message).partition(f". {_GIVEN}")
    return f"{what} (given: {value})" if mark else what


def redact_credentials(text: str) -> str:
    """Return text with the user names and passwords in URLs replaced.

    >>> redact_credentials("cannot reach https://name:password@host/path")
    'cannot reach https://***@host/path'
    """
    return _CREDENTIALS.sub(_HIDDEN, text)


def has_credentials(uri: str) -> bool:
    """Return whether a URI contains a user name or password."""
    return bool(_CREDENTIALS.search(uri))


def single_line(text: object) -> str:
    """Return the text of an object, such as an error, in one line of at most 200 characters.

    The middle of longer text is omitted. An object without a text, of a custom class, is described by its class.
    """
    return _one_line(text, MAX_VALUE_LENGTH)


def service_message(text: object) -> str:
    """Return the message of a service, such as the Kubernetes API server, in one line of at most 1000 characters.

    The middle of longer text is omitted, because the end names the amounts and causes.
    """
    return _one_line(text, MAX_MESSAGE_LENGTH)


def _one_line(text: object, max_length: int) -> str:
    return _shorten(redact_credentials(_to_text(text, str, repr).strip()), max_length)


def describe_yaml_error(error: Exception) -> str:
    """Return an error of the YAML parser in one line: the line of the file, if it is known, and the problem."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f"line {mark.line + 1}: {single_line(problem)}" if mark and problem else single_line(error)


def format_value(value: object) -> str:
    """Return the `repr` of a value, truncated to 200 characters without computing the rest.

    A YAML value may contain itself, so that its `repr` is infinite.
    """
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > MAX_VALUE_LENGTH:
            return text[: MAX_VALUE_LENGTH - len(_CUT)] + _CUT.rstrip()
    return text


def _shorten(text: str, max_length: int) -> str:
    line = _printable(text)
    if len(line) <= max_length:
        return line
    end = (max_length - len(_CUT)) // 2
    return line[: max_length - len(_CUT) - end] + _CUT + line[-end:]


def _printable(text: str) -> str:
    """Return text in one line, with control characters escaped."""
    line = _LINE_BREAK.sub(" ", text)
    return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def _to_text(value: object, *functions: Callable[[object], str]) -> str:
    for function in functions:
        # Custom classes and number classes of libraries may fail.
        with contextlib.suppress(Exception):
            return function(value)
    return f"an object of {type(value).__name__} without text"


def _pieces(value: object) -> Iterator[str]:
    """Yield the `repr` of a value in pieces, so that it can be truncated early."""
    match value:
        case str():
            # Redacts before truncating, because a truncated password does not match the pattern.
            yield repr(redact_credentials(value)[: MAX_VALUE_LENGTH + 1])
        case bytes():
            yield redact_credentials(repr(value))[: MAX_VALUE_LENGTH + 1]
        case int() if value.bit_length() > _MAX_BITS:
            yield f"an integer of {value.bit_length()} bits"
        case Mapping():
            yield "{"
            for number, (key, item) in enumerate(value.items()):
                yield ", " * bool(number)
                yield from _pieces(key)
                yield ": "
                yield from _pieces(item)
            yield "}"
        case list() | tuple() | AbstractSet():
            opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
            yield opening
            for number, item in enumerate(value):
                yield ", " * bool(number)
                yield from _pieces(item)
            # Python writes a tuple of one element with a comma.
            yield "," * (isinstance(value, tuple) and len(value) == 1) + closing
        case _:
            yield redact_credentials(_to_text(value, repr))
