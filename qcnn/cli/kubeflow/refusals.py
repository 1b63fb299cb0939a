"""What the answers of the pipelines backend mean to a user: one line each."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import urllib3

from qcnn.cli.target_errors import BackendError, CredentialsError, UnavailableError
from qcnn.errors import one_line

if TYPE_CHECKING:
    import kfp_server_api

_LOGIN = "log in with --token, --cookies or --iap-client-id"
_WEB_PAGE = re.compile(rb"\s*<(!doctype|html)", re.IGNORECASE)
_CAUSE = re.compile(r"\[(?:Errno -?\d+|SSL: \w+)\] ([^'\"()]+)")


@contextlib.contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn whatever asking the backend at `address` raises into an error of one line.

    Raises:
        BackendError: it refuses, or does not answer.
    """
    import google.auth.exceptions
    import kfp_server_api

    try:
        yield
    except kfp_server_api.ApiException as error:
        raise _refused(error, address) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(f"credentials: Google gives none ({one_line(error)}). Given: {address}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise UnavailableError(f"host: does not answer ({_cause(error)}). Given: {address}") from None


def check_is_api(answer: bytes, address: str) -> None:
    """Refuse an answer that is not the pipelines API's, which may well be 200 OK.

    Raises:
        BackendError: it is a web page, or no JSON.
    """
    if not _is_json(answer):
        raise BackendError(_not_the_api(answer, address))


def _refused(error: kfp_server_api.ApiException, address: str) -> BackendError:
    body = error.body if isinstance(error.body, bytes) else (error.body or "").encode()
    reason = _reason(body) or one_line(error.reason or "")
    match error.status:
        case 401:
            return CredentialsError(f"credentials: not accepted, {_LOGIN}. Given: {address}")
        case 403:
            return BackendError(f"permission: refused; is the namespace yours? ({reason}). Given: {address}")
        case 400 | 404 if _is_json(body):
            return BackendError(f"the backend at {address} refuses. Given: {reason}")
        case status if status < 500:
            return BackendError(_not_the_api(body, address))
    return UnavailableError(f"host: the backend fails ({error.status}, {reason}). Given: {address}")


def _not_the_api(answer: bytes, address: str) -> str:
    what = f"a web page; if it is a login, {_LOGIN}" if _WEB_PAGE.match(answer) else "something else"
    return f"host: not the pipelines API answers there, but {what}. Given: {address}"


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _reason(body: bytes) -> str:
    """Return the message of an error of the API."""
    try:
        content = json.loads(body)
    except ValueError:
        return "" if _WEB_PAGE.match(body) else one_line(body.decode(errors="replace"))
    return one_line(content.get("message") or content.get("error") or content) if content else ""


def _cause(error: BaseException) -> str:
    """Return what broke a connection, without the libraries' names for it."""
    while isinstance(reason := getattr(error, "reason", None), BaseException):
        error = reason
    text = one_line(error)
    found = _CAUSE.search(text)
    return found[1].strip() if found else text
