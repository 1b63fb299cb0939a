"""Batches of concurrent requests for a model version.

While a batch is predicted, later requests wait and form the next one. A single request never waits for others.
Predictions do not depend on the batch, to the bit.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt

from qcnn.serving.signature import Columns

# Maximum number of rows of a batch. A larger request is a separate batch.
_MAX_ROWS = 4096


class Batcher:
    """Queue of a model version, for one event loop."""

    def __init__(self, predict: Callable[[Columns], npt.NDArray[np.float64]], executor: Executor) -> None:
        """Create an empty queue.

        Args:
            predict: Function that returns the predictions for checked columns.
            executor: Threads that predict.
        """
        self._predict, self._executor = predict, executor
        self._waiting: list[tuple[Columns, asyncio.Future[npt.NDArray[np.float64]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def predict(self, columns: Columns) -> npt.NDArray[np.float64]:
        """Return the predictions for the columns of a request."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append((columns, future))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return await future  # type: ignore[no-any-return]

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._predict_batch()
        finally:
            self._task = None

    async def _predict_batch(self) -> None:
        batch, rows = list[tuple[Columns, asyncio.Future[npt.NDArray[np.float64]]]](), 0
        while self._waiting and (not batch or rows + _rows_of(self._waiting[0][0]) <= _MAX_ROWS):
            columns, future = self._waiting.pop(0)
            # The client of a canceled request has left.
            if not future.done():
                batch.append((columns, future))
                rows += _rows_of(columns)
        if not batch:
            return
        together = batch[0][0]
        if len(batch) > 1:
            together = {name: np.concatenate([columns[name] for columns, _ in batch]) for name in batch[0][0]}
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._executor, self._predict, together)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for columns, future in batch:
            end = start + _rows_of(columns)
            if not future.done():
                future.set_result(found[start:end])
            start = end


def _rows_of(columns: Columns) -> int:
    return len(next(iter(columns.values())))
