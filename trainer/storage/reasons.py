"""The reasons that object stores and their libraries give, in one line that a person can read."""

import re
import textwrap

from trainer.errors import MOST_QUOTED

# As in "HTTPConnection(host='a', port=1): ..." and "<urllib3.HTTPConnection object at 0x7f>: ...".
_OBJECT = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
# As in "503 GET https://...: ...".
_REQUEST = re.compile(r"^(?:\d{3} )?(?:GET|POST|PUT|PATCH|DELETE|HEAD) https?://\S+: ")


def reason_of(error: BaseException) -> str:
    """Return why a request failed, without what the libraries put around it, cut between words."""
    inner = _cause(error)
    while inner is not None:
        error, inner = inner, _cause(inner)
    text = " ".join(str(error).split()) or type(error).__name__
    return textwrap.shorten(_REQUEST.sub("", _OBJECT.sub("", text)), MOST_QUOTED, placeholder=" ...")


def _cause(error: BaseException) -> BaseException | None:
    """Return the error that is inside one (google.api_core `cause`, urllib3 `reason`, requests its first argument)."""
    candidates = (getattr(error, "cause", None), getattr(error, "reason", None), *error.args[:1])
    return next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)
