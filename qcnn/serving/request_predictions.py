"""Predictions for the rows of a request, which are the same for all protocols."""

import asyncio
import dataclasses
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.errors import ConfigError
from qcnn.serving.batching import Batcher
from qcnn.serving.errors import RequestError, bad_request
from qcnn.serving.metrics import ServingMetrics
from qcnn.serving.repository import LoadedVersion
from qcnn.serving.signature import Columns
from qcnn.simulators.kernels.program import MIN_THREAD_WORK

# Rows of a request and their operations up to which they are predicted at once. Another thread would take longer to
# wake up, and other requests wait for less than a millisecond.
_INLINE_ROWS, _INLINE_WORK = 1024, MIN_THREAD_WORK


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a server process.

    Attributes:
        body_bytes: Maximum bytes of the body of a request.
        rows: Maximum rows of a request.
        seconds: Maximum seconds for the body of a request, and for its predictions.
        requests: Maximum requests at the same time.
    """

    body_bytes: int
    rows: int
    seconds: float
    requests: int


class Predictions:
    """Predictions of loaded versions, for one event loop."""

    def __init__(
        self, metrics: ServingMetrics, limits: Limits, executor: ThreadPoolExecutor, *, batching: bool
    ) -> None:
        """Create the predictions of a process.

        Args:
            metrics: Metrics of the process.
            limits: Limits of the process.
            executor: Threads that predict.
            batching: Whether concurrent requests are predicted together.
        """
        self._metrics, self._limits, self._executor, self._batching = metrics, limits, executor, batching
        # A released version is freed with its queue.
        self._batchers: weakref.WeakKeyDictionary[LoadedVersion, Batcher] = weakref.WeakKeyDictionary()

    async def answers(self, name: str, loaded: LoadedVersion, inputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of a version by name, for the inputs of a request by name.

        Args:
            name: Name of the model.
            loaded: Version.
            inputs: Values of the inputs, as arrays or lists.

        Raises:
            RequestError: If an input is invalid, there is not enough memory or time, or a prediction is not finite.
        """
        columns = loaded.signature.columns(inputs, self._limits.rows)
        return loaded.signature.answers(await self._predict(name, loaded, columns))

    async def _predict(self, name: str, loaded: LoadedVersion, columns: Columns) -> npt.NDArray[np.float64]:
        """Return the predictions for the columns of a request.

        Raises:
            RequestError: If there is not enough memory or time, or a prediction is not finite.
        """
        rows = len(next(iter(columns.values())))
        predict = loaded.predictor.predicts_columns
        try:
            if rows <= _INLINE_ROWS and rows * loaded.predictor.row_work <= _INLINE_WORK:
                found = predict(columns)
            elif self._batching:
                if loaded not in self._batchers:
                    self._batchers[loaded] = Batcher(predict, self._executor)
                found = await asyncio.wait_for(self._batchers[loaded].predict(columns), self._limits.seconds)
            else:
                predicted = asyncio.get_running_loop().run_in_executor(self._executor, predict, columns)
                found = await asyncio.wait_for(predicted, self._limits.seconds)
        except TimeoutError:
            raise RequestError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"inputs: must be predicted within {self._limits.seconds:g} seconds. Given: {rows} rows",
            ) from None
        except ConfigError as error:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        if not np.isfinite(found).all():
            raise bad_request("inputs: must have finite predictions. Given: a row without one")
        self._metrics.count_rows(name, rows)
        for column, count in loaded.signature.outside_of_training(columns).items():
            self._metrics.count_outside(name, column, count)
        return found
