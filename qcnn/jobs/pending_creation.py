"""What a launcher that is told to end has to know of a job: whether one may be being created at that moment."""

import contextlib
import time
from collections.abc import Callable, Iterator

from qcnn.errors import QcnnError


class Creation:
    """Whether a job may be being created, which the API does not show yet."""

    def __init__(self) -> None:
        self._is_going_on = False

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Mark that a job may be created within this block."""
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def ended(self, end: Callable[[], bool], seconds: float) -> bool:
        """Call `end`, which tells whether it found a job, and return that; not raised is what it raises.

        Where it finds none while one may be being created, it is called again, for so many seconds.
        """
        until, found = time.monotonic() + seconds, False
        with contextlib.suppress(QcnnError):
            found = end()
            while self._is_going_on and not found and time.monotonic() < until:
                found = end()
        return found
