"""What the answers of Vertex AI mean to a user: one line each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from qcnn.cli.target_errors import BackendError, CredentialsError, UnavailableError
from qcnn.jobs.vertex.location import Place
from qcnn.storage.store import proxy_note

_LOGIN = "log in (gcloud auth application-default login), or run as a service account that has some"


class NotFoundError(BackendError):
    """What is asked for does not exist."""


class AlreadyExistsError(BackendError):
    """What is to be created is there."""


@contextlib.contextmanager
def explained(place: Place) -> Iterator[None]:
    """Turn whatever asking Vertex AI raises into an error of one line.

    Raises:
        BackendError: it refuses, or does not answer.
    """
    from qcnn.jobs.vertex.client import auth_exceptions, exceptions

    try:
        yield
    except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
        raise _refused(error, place) from None


def _refused(error: BaseException, place: Place) -> BackendError:
    from qcnn.jobs.vertex.client import auth_exceptions, exceptions, is_broken, is_quota, why

    where = f"{place.project} in {place.location}"
    if is_quota(error):
        return UnavailableError(f"quota: none is left ({why(error)}). Given: {where}")
    if is_broken(error):
        return UnavailableError(
            f"Vertex AI does not answer ({why(error)}{proxy_note(os.environ)}). Given: {place.endpoint}"
        )
    match error:
        case auth_exceptions.DefaultCredentialsError():
            return CredentialsError(f"credentials: none of Google's are found; {_LOGIN}. Given: none")
        case auth_exceptions.GoogleAuthError() | exceptions.Unauthenticated() | exceptions.Unauthorized():
            return CredentialsError(f"credentials: not accepted ({why(error)}); {_LOGIN}. Given: {where}")
        case exceptions.Forbidden():
            return BackendError(f"permission: refused ({why(error)}). Given: {where}")
        case exceptions.NotFound():
            return NotFoundError(f"Vertex AI: not found ({why(error)}). Given: {where}")
        case exceptions.Conflict():
            return AlreadyExistsError(f"Vertex AI: there already ({why(error)}). Given: {where}")
    return BackendError(f"Vertex AI refuses ({why(error)}). Given: {where}")
