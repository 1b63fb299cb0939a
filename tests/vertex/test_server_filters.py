"""List filters."""

from typing import Any

import pytest

from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.filters import parse

_JOB = {
    "name": "a/b",
    "display_name": "my_job_1",
    "state": "JOB_STATE_RUNNING",
    "create_time": "2026-11-22T10:00:00.5Z",
    "labels": {"run": "one", "a-b": "two"},
    "severity": "WARNING",
    "metadata": {"field:1": 10.0, "done": True, "text": "x"},
    "parent_contexts": ["p/1", "p/2"],
}


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", True),
        ('display_name="my_job_1"', True),
        ('display_name="my_job"', False),
        ("display_name:my_job_*", True),
        ('display_name:"my_*" AND state!="JOB_STATE_FAILED"', True),
        ("NOT labels.run=one", False),
        ("-labels.run=two", True),
        ('labels."a-b"="two"', True),
        ("labels.a-b=two", True),
        ("labels.c=two", False),
        ("labels.c!=two", True),
        ("labels.run:*", True),
        ("labels.c:*", False),
        ('create_time>"2026-11-22T10:00:00Z"', True),
        ('create_time>="2026-11-22T10:00:00.500000001Z"', False),
        ('create_time<"2026-11-22T10:00:01+00:00"', True),
        ("severity>=ERROR", False),
        ("severity>=INFO", True),
        # OR binds tighter than AND.
        ("labels.run=two AND labels.run=one OR labels.run=one", False),
        ("(labels.run=two AND labels.run=one) OR labels.run=one", True),
        ("labels.run=one\nlabels.a-b=two", True),
        ('metadata."field:1".number_value=10', True),
        ("metadata.done.bool_value=true", True),
        ('metadata.text.string_value="y"', False),
        ('parent_contexts:"p/1"', True),
        ('parent_contexts:"p/1","p/3"', False),
        ('in_context("b")', True),
        ('display_name="my_job_1" AND in_context("c")', False),
    ],
)
def test_parse_returns_predicate_of_filter(text: str, passes: bool) -> None:
    def in_context(found: Any, argument: str) -> bool:
        return str(found["name"]).endswith(f"/{argument}")

    assert parse(text, _JOB, {"in_context": in_context})(_JOB) is passes


@pytest.mark.parametrize(
    "text", ["error.code=3", "state", "(state=a", "state=a)", "state=a OR", "=a", 'other("a")', "state = "]
)
def test_parse_malformed_filter_is_rejected(text: str) -> None:
    with pytest.raises(StatusError, match="Invalid list filter"):
        parse(text, ("state",))
