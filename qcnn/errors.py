"""The errors a user can act on: one line each, ending in what was given."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

# Most characters of a value that a message quotes, and of everything before it.
MOST_QUOTED = 200
_MOST = 1000
_GIVEN = "Given: "
_CUT = " ... "
# Python refuses to write integers of more than 4300 digits; they are cut long before.
_MOST_BITS = 3 * MOST_QUOTED
# Name and password in an address; what follows is kept.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#@]*(?:@[^/\s?#@]*)*@")
_HIDDEN = "***@"
_LINE_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class QcnnError(Exception):
    """A fault with a known cause; the message is one line that names it and quotes little of what was given."""

    def __init__(self, message: str) -> None:
        super().__init__(truncate_message(message))


class ConfigError(QcnnError):
    """The experiment or the cluster was described wrongly."""


class ArtifactError(QcnnError):
    """A dataset, checkpoint or model folder is missing, damaged, or belongs to another experiment."""


class TrainingError(QcnnError):
    """Training cannot go on, and would fail again in the same way."""


class RetryableError(QcnnError):
    """Training was stopped from outside (a lost peer, a taken port); starting it again continues it."""


def truncate_message(message: str) -> str:
    """Return a message in one line, with at most 200 characters of the given value at its end."""
    what, mark, value = redact_credentials(message).partition(_GIVEN)
    return _shortened(what, _MOST) + mark + _shortened(value)


def as_clause(message: object) -> str:
    """Return an error's message as a part of another one, which ends with a given value of its own.

    >>> as_clause("qubits: must be at least 4. Given: 3")
    'qubits: must be at least 4 (given: 3)'
    """
    what, mark, value = str(message).partition(f". {_GIVEN}")
    return f"{what} (given: {value})" if mark else what


def redact_credentials(text: str) -> str:
    """Return text without names and passwords in addresses, which belong into no message.

    >>> hidden("cannot reach https://name:password@host/path")
    'cannot reach https://***@host/path'
    """
    return _CREDENTIALS.sub(_HIDDEN, text)


def has_credentials(address: str) -> bool:
    """Whether an address has a name or password in it."""
    return bool(_CREDENTIALS.search(address))


def single_line(text: object) -> str:
    """Return what an error, a file or a user says in one line of at most 200 characters, without its middle if longer.

    An error of a class of the user's own that cannot be written is named by its class.
    """
    return _shortened(redact_credentials(_written(text, str, repr).strip()))


def format_value(value: object) -> str:
    """Return a value as Python writes it, cut after 200 characters; of a larger one no more than that is written.

    A file of few bytes may hold an endless value, where a part has a name and contains itself.
    """
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > MOST_QUOTED:
            return text[: MOST_QUOTED - len(_CUT)] + _CUT.rstrip()
    return text


def _shortened(text: str, most: int = MOST_QUOTED) -> str:
    line = _printable(text)
    if len(line) <= most:
        return line
    end = (most - len(_CUT)) // 2
    return line[: most - len(_CUT) - end] + _CUT + line[-end:]


def _printable(text: str) -> str:
    """Return text in one line, what a terminal would act on escaped."""
    line = _LINE_BREAK.sub(" ", text)
    return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def _written(value: object, *ways: Callable[[object], str]) -> str:
    for way in ways:
        # A class of the user's own, or a library's for special numbers, may fail here too.
        with contextlib.suppress(Exception):
            return way(value)
    return f"something of {type(value).__name__}, which cannot be written"


def _pieces(value: object) -> Iterator[str]:
    """Yield what repr would return, piece by piece, so that nobody has to wait for the whole."""
    match value:
        case str():
            # Hidden before it is cut: half a password would look like none.
            yield repr(redact_credentials(value)[: MOST_QUOTED + 1])
        case bytes():
            yield redact_credentials(repr(value))[: MOST_QUOTED + 1]
        case int() if value.bit_length() > _MOST_BITS:
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
            # Python's own way to write a tuple of one.
            yield "," * (isinstance(value, tuple) and len(value) == 1) + closing
        case _:
            yield redact_credentials(_written(value, repr))
