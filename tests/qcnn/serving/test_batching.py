"""Concurrent requests form batches, with the answers of single requests."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest

from qcnn.serving.batching import Batcher
from qcnn.serving.signature import Columns


class Squares:
    """Predictor that waits until it may continue, and records the sizes of its batches."""

    def __init__(self) -> None:
        self.sizes, self.may_continue = list[int](), threading.Event()

    def __call__(self, columns: Columns) -> npt.NDArray[np.float64]:
        self.may_continue.wait(60)
        self.sizes.append(len(columns["a"]))
        if (columns["a"] < 0).any():
            raise ValueError("negative")
        return columns["a"] ** 2


def _requests(*sizes: int) -> list[Columns]:
    return [{"a": np.arange(size, dtype=np.float64) + size} for size in sizes]


def test_waiting_requests_are_one_batch() -> None:
    predict, requests = Squares(), _requests(1, 2, 3, 4000, 97, 5000, 1)

    async def answers() -> list[npt.NDArray[np.float64]]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(predict, pool)
            tasks = [asyncio.create_task(batcher.predict(each)) for each in requests]
            await asyncio.sleep(0)
            predict.may_continue.set()
            return await asyncio.gather(*tasks)

    found = asyncio.run(answers())
    for columns, predictions in zip(requests, found, strict=True):
        assert np.array_equal(predictions, columns["a"] ** 2)
    # All requests are waiting when the first batch begins. A batch has at most 4,096 rows.
    assert predict.sizes == [4006, 97, 5000, 1]


def test_canceled_request_does_not_stop_others() -> None:
    predict, requests = Squares(), _requests(1, 2, 3)

    async def answers() -> list[npt.NDArray[np.float64] | BaseException]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(predict, pool)
            tasks = [asyncio.create_task(batcher.predict(each)) for each in requests]
            await asyncio.sleep(0)
            tasks[1].cancel()
            predict.may_continue.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

    first, canceled, last = asyncio.run(answers())
    assert isinstance(canceled, asyncio.CancelledError)
    for found, columns in ((first, requests[0]), (last, requests[2])):
        assert not isinstance(found, BaseException)
        assert np.array_equal(found, columns["a"] ** 2)


def test_error_of_batch_is_that_of_its_requests() -> None:
    predict = Squares()
    predict.may_continue.set()

    async def answers() -> npt.NDArray[np.float64]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(predict, pool)
            with pytest.raises(ValueError, match="negative"):
                await batcher.predict({"a": np.array([-1.0])})
            return await batcher.predict({"a": np.array([3.0])})

    assert asyncio.run(answers()) == [9.0]
