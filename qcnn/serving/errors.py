"""Error of a request."""

from http import HTTPStatus

from qcnn.errors import QcnnError


class RequestError(QcnnError):
    """Error of a request, whose message is the single line of the answer.

    Attributes:
        status: Status code of the answer.
    """

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


def bad_request(line: str) -> RequestError:
    """Return the error of a request that must be changed."""
    return RequestError(HTTPStatus.BAD_REQUEST, line)


def not_found(line: str) -> RequestError:
    """Return the error of a request for something that does not exist."""
    return RequestError(HTTPStatus.NOT_FOUND, line)
