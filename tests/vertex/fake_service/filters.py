"""List filters of Google's services: comparisons joined by AND, OR and NOT.

The grammar is the part of https://google.aip.dev/160 and of Cloud Logging's query language that clients use. OR binds
tighter than AND, and adjacent comparisons are joined by AND.
"""

import datetime
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.vertex.fake_service.errors import StatusError

# Returns whether an item, a message or a log entry as JSON, matches the filter.
Predicate = Callable[[Mapping[str, Any]], bool]

# Takes the item and the argument.
Function = Callable[[Mapping[str, Any], str], bool]

_TOKEN = re.compile(
    r"""\s*(?:--[^\n]*|(?P<open>\()|(?P<close>\))|(?P<join>AND|OR|NOT)\b|(?P<minus>-(?=[\w(]))
    |(?P<function>\w+)\(\s*"(?P<argument>[^"]*)"\s*\)
    |(?P<path>[\w]+(?:\.(?:[\w/-]+|"[^"]*"))*)\s*(?P<operator><=|>=|!=|=~|[=<>:])\s*
     (?P<value>"(?:[^"\\]|\\.)*"(?:,"[^"]*")*|[^\s()]+))""",
    re.VERBOSE,
)
# Last names of paths into metadata.
_TYPES = ("number_value", "string_value", "bool_value")
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")


def parse(text: str, fields: Collection[str], functions: Mapping[str, Function] | None = None) -> Predicate:
    """Return the predicate of a filter.

    Args:
        text: The filter.
        fields: Top-level fields that the filter may use.
        functions: Functions that the filter may call, such as in_context("NAME").

    Raises:
        StatusError: If the filter is malformed or uses another field.
    """
    parser = _Parser(text, fields, functions or {})
    return parser.whole() if text.strip() else lambda _: True


class _Parser:
    def __init__(self, text: str, fields: Collection[str], functions: Mapping[str, Function]) -> None:
        self._text, self._fields, self._functions = text, fields, functions
        self._tokens: list[re.Match[str]] = []
        position = 0
        while text[position:].strip():
            token = _TOKEN.match(text, position)
            if not token:
                raise self._error(f"at {text[position : position + 40]!r}")
            if token.lastgroup:
                self._tokens.append(token)
            position = token.end()

    def whole(self) -> Predicate:
        found = self._conjunction()
        if self._tokens:
            raise self._error(f"at {self._tokens[0].group().strip()!r}")
        return found

    def _conjunction(self) -> Predicate:
        parts = [self._disjunction()]
        while self._tokens and not self._tokens[0]["close"]:
            self._take("AND")
            parts.append(self._disjunction())
        return lambda found: all(part(found) for part in parts)

    def _disjunction(self) -> Predicate:
        parts = [self._single()]
        while self._take("OR"):
            parts.append(self._single())
        return lambda found: any(part(found) for part in parts)

    def _single(self) -> Predicate:
        if not self._tokens:
            raise self._error("it ends too early")
        token = self._tokens.pop(0)
        if token["join"] == "NOT" or token["minus"]:
            part = self._single()
            return lambda found: not part(found)
        if token["open"]:
            part = self._conjunction()
            if not self._tokens or not self._tokens.pop(0)["close"]:
                raise self._error("a parenthesis is not closed")
            return part
        if token["function"]:
            return self._call(token["function"], token["argument"])
        if not token["path"]:
            raise self._error(f"at {token.group().strip()!r}")
        return self._comparison(token["path"], token["operator"], token["value"])

    def _comparison(self, path: str, sign: str, value: str) -> Predicate:
        names = tuple(name.strip('"') for name in re.findall(r'"[^"]*"|[^."]+', path))
        if names[0] not in self._fields:
            raise self._error(f"field {names[0]!r} cannot be filtered by; allowed: {', '.join(sorted(self._fields))}")
        if names[0] == "metadata" and names[-1] in _TYPES:
            names = names[:-1]
        wanted = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        return lambda found: _compare(_value(found, names), sign, wanted)

    def _call(self, name: str, argument: str) -> Predicate:
        function = self._functions.get(name)
        if not function:
            raise self._error(f"there is no function {name!r}")
        return lambda found: function(found, argument)

    def _take(self, word: str) -> bool:
        taken = bool(self._tokens) and self._tokens[0]["join"] == word
        if taken:
            self._tokens.pop(0)
        return taken

    def _error(self, reason: str) -> StatusError:
        return StatusError(400, f"Invalid list filter: {reason}. Given: {self._text}")


def _value(found: Any, names: tuple[str, ...]) -> Any:
    """Return the value at a path, or None if it does not exist."""
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def _compare(value: Any, sign: str, wanted: str) -> bool:
    if isinstance(value, list):
        # All listed values must be contained; they are separated by `","`.
        return set(wanted.split('","')) <= set(value)
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, (int, float)):
        return bool({**_ORDER, "=": operator.eq, "!=": operator.ne}[sign](value, float(wanted)))
    if sign == ":":
        if wanted == "*":
            return value is not None
        # An asterisk matches any text. A pattern without one matches any part of the value.
        pattern = re.escape(wanted).replace(r"\*", ".*") if "*" in wanted else f".*{re.escape(wanted)}.*"
        return value is not None and bool(re.fullmatch(pattern, str(value), re.DOTALL))
    if sign == "=~":
        return value is not None and bool(re.search(wanted, str(value)))
    if sign in ("=", "!="):
        return (value is not None and _comparable(value) == _comparable(wanted)) is (sign == "=")
    return value is not None and bool(_ORDER[sign](_comparable(value), _comparable(wanted)))


def _comparable(value: Any) -> Any:
    """Return a sort key: a severity as a number, a time as a datetime with its fraction, or the text."""
    text = str(value)
    if text in _SEVERITIES:
        return _SEVERITIES.index(text)
    if re.match(r"\d{4}-\d\d-\d\d", text):
        # datetime has no nanoseconds, so the fraction is compared as text.
        whole, _, rest = text.rstrip("Z").partition(".")
        return datetime.datetime.fromisoformat(f"{whole.removesuffix('+00:00')}+00:00"), rest.partition("+")[0].ljust(
            9, "0"
        )
    return text
