"""What an error of Google's client library means, in one line."""

from qcnn.jobs.vertex.client.library import auth_exceptions, exceptions
from qcnn.trainer.errors import ConfigError, one_line

# Answers after which the same request may succeed, and nobody knows whether it has.
_BROKEN = (
    exceptions.ServerError,
    exceptions.Cancelled,
    exceptions.Aborted,
    exceptions.RetryError,
    auth_exceptions.TransportError,
    OSError,
)


def is_broken(error: BaseException) -> bool:
    """Whether the server is broken or gone, and may come back; every other error is a refusal."""
    # 501 and its like tell that the server does not know the method.
    return isinstance(error, _BROKEN) and not isinstance(error, exceptions.MethodNotImplemented)


def is_quota(error: BaseException) -> bool:
    """Whether a quota is used up, be it one of requests a minute or one of machines."""
    return isinstance(error, exceptions.TooManyRequests)


def why(error: BaseException) -> str:
    """Return what an answer says, or what broke the connection, in one line."""
    return one_line(error.message if isinstance(error, exceptions.GoogleAPICallError) else error)


def refused(error: BaseException, action: str, place: str) -> ConfigError:
    """Return the error of a request that is not tried again."""
    reason = why(error)
    if isinstance(error, auth_exceptions.DefaultCredentialsError):
        return ConfigError(
            "credentials: none of Google are found; log in (gcloud auth application-default login), or run as a "
            f"service account that has some. Given: {place}"
        )
    if isinstance(error, exceptions.Unauthenticated | exceptions.Unauthorized | auth_exceptions.GoogleAuthError):
        return ConfigError(f"credentials: Google refuses them ({reason}). Given: {place}")
    if isinstance(error, exceptions.Forbidden):
        return ConfigError(f"permission: {action} is not allowed ({reason}). Given: {place}")
    if isinstance(error, exceptions.NotFound):
        return ConfigError(f"{action}: what is asked for does not exist ({reason}). Given: {place}")
    return ConfigError(f"{action}: Vertex AI refuses ({reason}). Given: {place}")
