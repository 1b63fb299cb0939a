"""Distribution of samples over steps and replicas, exact for every batch size and number of replicas.

A batch is split by sample, or by qubit if each replica should evolve the states of few qubits only.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.data import Samples


@dataclasses.dataclass(frozen=True)
class Shards:
    """Samples of an epoch, each array (steps, replicas, width, ...), padded with weight 0.

    `inputs` are the model inputs by input name.

    The weight of a sample is 1 / size of its global batch. The weighted sum over all replicas is then the mean over
    the batch, even if shards differ in size. `sizes` (steps,) are the batch sizes without padding. `draw`
    (steps, replicas, 4) seeds sampled readouts (`qcnn.model.network`), and is None for exact readouts.

    Split by qubit, the arrays have one row, (steps, 1, width), for all replicas. A replica uses the samples of the
    qubits in its row of `own` (replicas, width), which is padded with -1. The shapes do not depend on the sample order.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    label: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    draw: npt.NDArray[np.int64] | None = None
    own: npt.NDArray[np.int32] | None = None

    @property
    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Arguments of a training step by name, each (steps or 1, replicas or 1, ...)."""
        arrays: dict[str, npt.NDArray[np.generic]] = {**self.inputs, "label": self.label, "weight": self.weight}
        if self.draw is not None:
            arrays["draw"] = self.draw
        if self.own is not None:
            # One entry for all steps, so that values that depend only on it and the weights are computed once.
            arrays["own"] = self.own[None]
        return arrays

    def sampled(self, shots: int, seeds: npt.NDArray[np.int64]) -> "Shards":
        """Return the shards with readouts to be estimated from `shots`, by the `seeds` (steps, 2)."""
        share = (self.weight > 0).sum(axis=2)
        before = np.cumsum(share, axis=1) - share
        draw = np.empty((*share.shape, 4), np.int64)
        draw[..., 0], draw[..., 1], draw[..., 2:] = shots, before, seeds[:, None]
        return dataclasses.replace(self, draw=draw)


def shard(samples: Samples, batch_size: int, replicas: int) -> Shards:
    """Split samples, in order, into global batches and each batch into one shard per replica.

    The last batch has the remaining samples. Shards of a batch differ by at most one sample and may be empty.

    Args:
        samples: Samples of an epoch.
        batch_size: Global batch size.
        replicas: Number of replicas.
    """
    count = len(samples)
    sizes = np.full(-(-count // batch_size), batch_size, np.int64)
    sizes[-1] = count - batch_size * (len(sizes) - 1)
    width = -(-min(batch_size, count) // replicas)
    starts = np.arange(len(sizes)) * batch_size
    position = np.empty((len(sizes), replicas, width), np.int64)
    for size in np.unique(sizes):
        share = _shares(int(size), replicas, width)
        position[sizes == size] = np.where(share < 0, -1, starts[sizes == size][:, None, None] + share)
    real = position >= 0
    return Shards(
        inputs={name: _gather_values(values, position, real) for name, values in samples.inputs.items()},
        label=np.where(real, samples.label[position], 0).astype(np.float64),
        weight=np.where(real, 1.0 / sizes[:, None, None], 0),
        sizes=sizes,
    )


def _gather_values(
    values: npt.NDArray[Any], position: npt.NDArray[np.int64], real: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """Return `values` (samples, ...) at the positions, or 0 where `real` is false."""
    placed: npt.NDArray[Any] = values[position]
    placed[~real] = 0
    return placed


def shard_by_qubit(samples: Samples, batch_size: int, replicas: int, qubits: int) -> Shards:
    """Split samples, in order, into global batches that are split over replicas by qubit.

    The qubits of a replica are neighbors on the ring. The numbers of qubits of two replicas differ by at most one.

    Args:
        samples: Samples of an epoch, which must be excitations.
        batch_size: Global batch size.
        replicas: Number of replicas.
        qubits: Number of qubits on the ring.
    """
    own = _shares(qubits, replicas, -(-qubits // replicas))
    return dataclasses.replace(shard(samples, batch_size, 1), own=own.astype(np.int32))


def _shares(size: int, replicas: int, width: int) -> npt.NDArray[np.int64]:
    """Split 0 to size - 1 over replicas, in order, (replicas, width), padded with -1."""
    shares = np.full((replicas, width), -1, np.int64)
    for replica, share in enumerate(np.array_split(np.arange(size), replicas)):
        shares[replica, : len(share)] = share
    return shares
