"""Shares of a state in TensorFlow processes: their exchange, and sums over them.

`RemoteShares` is for one client, whose function runs on the devices of other processes. TensorFlow adds a send and a
receive operation for each tensor that another device uses. `CollectiveShares` is for processes that run the same
function, as the replicas of a strategy, and exchange their shares with collective operations.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import tensorflow as tf

# Arbitrary keys, unlike those of a strategy, which are small.
_GROUP, _FIRST_INSTANCE = 10**6, 10**6


class Shares(Protocol):
    """Shares of a state that this program computes."""

    @property
    def count(self) -> int:
        """Number of shares of the state."""

    @property
    def devices(self) -> dict[int, str]:
        """Device of each share that this program computes, by the index of the share."""

    def exchange(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Send block i of each part, (shares, ...), to share i, and return the received blocks, (shares, ...)."""

    def total(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the sum over the values of all shares."""


class RemoteShares:
    """Shares on devices that one client uses."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.count = len(devices)
        self.devices = dict(enumerate(devices))

    def exchange(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Copy blocks between devices."""
        blocks: list[list[tf.Tensor]] = []
        for part, device in zip(parts, self.devices.values(), strict=True):
            with tf.device(device):
                blocks.append(tf.unstack(part, num=self.count))
        received = []
        for share, device in self.devices.items():
            with tf.device(device):
                received.append(tf.stack([sent[share] for sent in blocks]))
        return received

    def total(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the sum, on the client's device."""
        return tf.add_n(values)


class CollectiveShares:
    """The share of one of several processes that run the same function."""

    def __init__(self, index: int, count: int, timeout_seconds: float) -> None:
        self.count = count
        self.devices = {index: "/cpu:0"}
        self._timeout = timeout_seconds
        self._instances = itertools.count(_FIRST_INSTANCE)

    def exchange(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Exchange blocks with an all-to-all operation."""
        (part,) = parts
        return [self._run(tf.raw_ops.CollectiveAllToAllV2, part)]

    def total(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the sum, in every process."""
        (value,) = values
        return self._run(tf.raw_ops.CollectiveReduceV2, value, merge_op="Add", final_op="Id")

    def gather(self, value: tf.Tensor) -> tf.Tensor:
        """Return the concatenated values of all shares, in every process."""
        return self._run(tf.raw_ops.CollectiveGatherV2, value)

    def _run(self, operation: Callable[..., tf.Tensor], value: tf.Tensor, **options: str) -> tf.Tensor:
        return operation(
            input=value,
            group_size=self.count,
            group_key=_GROUP,
            instance_key=next(self._instances),
            ordering_token=[],
            communication_hint="ring",
            timeout_seconds=self._timeout,
            **options,
        )
