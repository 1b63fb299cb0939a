"""The jobs of one kind in a place of Vertex AI: requests that are tried again, errors of one line."""

from collections.abc import Callable
from typing import Any, TypeVar

from qcnn.jobs.vertex.client.kind import CUSTOM, Kind, VertexJob
from qcnn.jobs.vertex.client.library import aiplatform, auth_exceptions, exceptions
from qcnn.jobs.vertex.client.patience import tries
from qcnn.jobs.vertex.client.refusals import is_broken, is_quota, refused, why
from qcnn.jobs.vertex.place import Place
from qcnn.trainer.errors import QcnnError, RetryableError

Result = TypeVar("Result")

_SECONDS = 30.0


class QuotaError(QcnnError):
    """No job can be created at present: a quota is used up."""


class UnansweredError(QcnnError):
    """Nobody knows whether what was asked for is done: the connection broke before the answer came."""


class Api:
    """The jobs of one kind in a place. Requests may be made by several threads.

    Every request but `create` is tried again with backoff and jitter while the server is busy, broken or gone, for as
    long as `patience` says: seconds at first, minutes once it has answered anything.

    Raises (by every method):
        ConfigError: the server refuses, or there are no credentials; one line that says what is missing.
        RetryableError: it did not answer for as long as that.
    """

    def __init__(self, place: Place, kind: Kind = CUSTOM) -> None:
        self.place = place
        self.kind = kind
        self._answered = False
        try:
            # One method for each kind, of the same form.
            self._client: Any = aiplatform.JobServiceClient(client_options={"api_endpoint": place.endpoint})
        except auth_exceptions.GoogleAuthError as error:
            raise refused(error, "log in", str(place.parent)) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def find(self, selector: str) -> list[VertexJob]:
        """Return the jobs that match a filter, as of labels: labels.qcnn_job=NAME."""
        request = self.kind.request("List")(parent=self.place.parent, filter=selector)
        listed = self._method("list", "s")
        return self._tried(f"list {self.kind.word}s", lambda: list(listed(request, retry=None, timeout=_SECONDS)))

    def get(self, name: str) -> VertexJob | None:
        """Return a job by its resource name, None if there is none."""

        def once() -> VertexJob | None:
            try:
                found: VertexJob = self._method("get")(name=name, retry=None, timeout=_SECONDS)
                return found
            except exceptions.NotFound:
                return None

        return self._tried(f"get a {self.kind.word}", once)

    def create(self, job: VertexJob) -> VertexJob:
        """Create a job and return it. This is not tried again, since every request makes a job of its own.

        Raises:
            QuotaError: there is no quota left for it.
            UnansweredError: it may be there, or may be soon.
        """
        try:
            given = {"parent": self.place.parent, self.kind.field: job}
            created: VertexJob = self._method("create")(**given, retry=None, timeout=_SECONDS)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_quota(error):
                raise QuotaError(f"quota: none is left ({why(error)}). Given: {self.place.parent}") from None
            if is_broken(error):
                raise UnansweredError(f"create a {self.kind.word}: no answer ({why(error)})") from None
            raise refused(error, f"create {self.kind.word}s", self.place.parent) from None
        self._answered = True
        return created

    def cancel(self, name: str) -> None:
        """Have a job cancelled; one that has ended or is gone stays as it is."""

        def once() -> None:
            try:
                self._method("cancel")(name=name, retry=None, timeout=_SECONDS)
            except (exceptions.NotFound, exceptions.FailedPrecondition):
                return

        self._tried(f"cancel a {self.kind.word}", once)

    def _method(self, action: str, ending: str = "") -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, f"{action}_{self.kind.field}{ending}")
        return method

    def _tried(self, action: str, once: Callable[[], Result]) -> Result:
        try:
            result = tries(action, lambda: self._answered)(once)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_broken(error) or is_quota(error):
                raise RetryableError(
                    f"Vertex AI: {action}: no answer ({why(error)}). Given: {self.place.endpoint}"
                ) from None
            raise refused(error, action, self.place.parent) from None
        self._answered = True
        return result
