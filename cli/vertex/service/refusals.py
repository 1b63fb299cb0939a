"""What the answers of Vertex AI mean to a user: one line each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cli.errors import BackendError, CredentialsError, UnavailableError
from launchers.vertex.place import Place
from trainer.errors import one_line

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
    from google.api_core import exceptions
    from google.auth import exceptions as auth_exceptions

    try:
        yield
    except exceptions.RetryError as error:
        raise _refused(error.cause or error, place) from None
    except exceptions.GoogleAPIError as error:
        raise _refused(error, place) from None
    except auth_exceptions.DefaultCredentialsError:
        raise CredentialsError(f"credentials: none of Google's are found; {_LOGIN}. Given: none") from None
    except auth_exceptions.TransportError as error:
        raise UnavailableError(f"credentials: Google does not answer ({one_line(error)}). Given: {place}") from None
    except auth_exceptions.GoogleAuthError as error:
        raise CredentialsError(f"credentials: Google gives none ({one_line(error)}); {_LOGIN}. Given: them") from None


def _refused(error: BaseException, place: Place) -> BackendError:
    from google.api_core import exceptions

    reason = one_line(getattr(error, "message", None) or error)
    where = f"{place.project} in {place.location}"
    match error:
        case exceptions.Unauthenticated() | exceptions.Unauthorized():
            return CredentialsError(f"credentials: not accepted ({reason}); {_LOGIN}. Given: {where}")
        case exceptions.Forbidden():
            return BackendError(f"permission: refused ({reason}). Given: {where}")
        case exceptions.NotFound():
            return NotFoundError(f"Vertex AI: not found ({reason}). Given: {where}")
        case exceptions.AlreadyExists() | exceptions.Conflict():
            return AlreadyExistsError(f"Vertex AI: there already ({reason}). Given: {where}")
        case exceptions.TooManyRequests():
            return UnavailableError(f"quota: used up, wait or ask Google for more ({reason}). Given: {where}")
        case exceptions.ClientError():
            return BackendError(f"Vertex AI refuses. Given: {reason}")
    return UnavailableError(f"Vertex AI does not answer ({reason}). Given: {place.endpoint}")
