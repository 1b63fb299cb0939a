"""The custom jobs of a place of Vertex AI: requests that are tried again, errors of one line."""

from collections.abc import Callable
from typing import TypeVar

from launchers.vertex.client.library import aiplatform, auth_exceptions, exceptions
from launchers.vertex.client.patience import tries
from launchers.vertex.client.refusals import is_broken, is_quota, refused, why
from launchers.vertex.place import Place
from trainer.errors import QcnnError, RetryableError

Result = TypeVar("Result")

_SECONDS = 30.0


class QuotaError(QcnnError):
    """No job can be created at present: a quota is used up."""


class UnansweredError(QcnnError):
    """Nobody knows whether what was asked for is done: the connection broke before the answer came."""


class Api:
    """Custom jobs of one place. Requests may be made by several threads.

    Every request but `create` is tried again with backoff and jitter while the server is busy, broken or gone, for as
    long as `patience` says: seconds at first, minutes once it has answered anything.

    Raises (by every method):
        ConfigError: the server refuses, or there are no credentials; one line that says what is missing.
        RetryableError: it did not answer for as long as that.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._answered = False
        try:
            self._client = aiplatform.JobServiceClient(client_options={"api_endpoint": place.endpoint})
        except auth_exceptions.GoogleAuthError as error:
            raise refused(error, "log in", str(place.parent)) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def find(self, selector: str) -> list[aiplatform.CustomJob]:
        """Return the jobs that match a filter, as of labels: labels.qcnn_job=NAME."""
        request = aiplatform.ListCustomJobsRequest(parent=self.place.parent, filter=selector)
        return self._tried(
            "list custom jobs", lambda: list(self._client.list_custom_jobs(request, retry=None, timeout=_SECONDS))
        )

    def get(self, name: str) -> aiplatform.CustomJob | None:
        """Return a job by its resource name, None if there is none."""

        def once() -> aiplatform.CustomJob | None:
            try:
                return self._client.get_custom_job(name=name, retry=None, timeout=_SECONDS)
            except exceptions.NotFound:
                return None

        return self._tried("get a custom job", once)

    def create(self, job: aiplatform.CustomJob) -> aiplatform.CustomJob:
        """Create a job and return it. This is not tried again, since every request makes a job of its own.

        Raises:
            QuotaError: there is no quota left for it.
            UnansweredError: it may be there, or may be soon.
        """
        try:
            created = self._client.create_custom_job(
                parent=self.place.parent, custom_job=job, retry=None, timeout=_SECONDS
            )
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_quota(error):
                raise QuotaError(f"quota: none is left ({why(error)}). Given: {self.place.parent}") from None
            if is_broken(error):
                raise UnansweredError(f"create a custom job: no answer ({why(error)})") from None
            raise refused(error, "create custom jobs", self.place.parent) from None
        self._answered = True
        return created

    def cancel(self, name: str) -> None:
        """Have a job cancelled; one that has ended or is gone stays as it is."""

        def once() -> None:
            try:
                self._client.cancel_custom_job(name=name, retry=None, timeout=_SECONDS)
            except (exceptions.NotFound, exceptions.FailedPrecondition):
                return

        self._tried("cancel a custom job", once)

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
