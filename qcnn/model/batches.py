"""Which replica trains on which sample, in which step: exact for every batch size and number of replicas.

Replicas share a batch by sample, or by qubit where each is to evolve the states of few qubits only.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.data import Samples


@dataclasses.dataclass(frozen=True)
class Shards:
    """An epoch's samples, each array (steps, replicas, width, ...), padded with weight 0.

    `inputs` are what the model takes of them, by the names of its inputs.

    A sample's weight is one over the true size of its global batch, so that the weighted sum over all
    replicas is the mean over the batch, however uneven the shares. `sizes` (steps,) are those true sizes. `draw`
    (steps, replicas, 4) is what sampled readouts are drawn from (`qcnn.model.network`), None where they are exact.

    Shared by qubit, the arrays hold one row, (steps, 1, width), for all replicas; the samples of the qubits in its row
    of `own` (replicas, most), of which -1 is none, are a replica's. Nothing in their shapes depends on the order.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    label: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    draw: npt.NDArray[np.int64] | None = None
    own: npt.NDArray[np.int32] | None = None

    @property
    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """What a training step reads, by name, each (steps, replicas, ...); of 1 it is for all of them."""
        arrays: dict[str, npt.NDArray[np.generic]] = {**self.inputs, "label": self.label, "weight": self.weight}
        if self.draw is not None:
            arrays["draw"] = self.draw
        if self.own is not None:
            # Not an entry a step: what follows from it and the weights can then be computed once for all steps.
            arrays["own"] = self.own[None]
        return arrays

    def sampled(self, shots: int, seeds: npt.NDArray[np.int64]) -> "Shards":
        """Return these shards with readouts to be estimated from `shots`, by one seed (2 words) a step."""
        share = (self.weight > 0).sum(axis=2)
        before = np.cumsum(share, axis=1) - share
        draw = np.empty((*share.shape, 4), np.int64)
        draw[..., 0], draw[..., 1], draw[..., 2:] = shots, before, seeds[:, None]
        return dataclasses.replace(self, draw=draw)


def shard(samples: Samples, batch_size: int, replicas: int) -> Shards:
    """Cut samples, in their order, into global batches and each batch into one share a replica.

    The last batch holds what is left; shares of a batch differ by at most one sample and may be empty.
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
        inputs={name: _placed(values, position, real) for name, values in samples.inputs.items()},
        label=np.where(real, samples.label[position], 0).astype(np.float64),
        weight=np.where(real, 1.0 / sizes[:, None, None], 0),
        sizes=sizes,
    )


def _placed(values: npt.NDArray[Any], position: npt.NDArray[np.int64], real: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return values, (samples, ...), at positions, 0 where there is none."""
    placed: npt.NDArray[Any] = values[position]
    placed[~real] = 0
    return placed


def shard_by_qubit(samples: Samples, batch_size: int, replicas: int, qubits: int) -> Shards:
    """Cut samples, in their order, into global batches that replicas share by qubit.

    A replica's qubits are neighbours on the ring of `qubits`; the numbers of two replicas differ by at most one.
    """
    own = _shares(qubits, replicas, -(-qubits // replicas))
    return dataclasses.replace(shard(samples, batch_size, 1), own=own.astype(np.int32))


def _shares(size: int, replicas: int, width: int) -> npt.NDArray[np.int64]:
    """Share 0 to size - 1 out in order, (replicas, width), -1 where a replica has fewer than the most."""
    shares = np.full((replicas, width), -1, np.int64)
    for replica, share in enumerate(np.array_split(np.arange(size), replicas)):
        shares[replica, : len(share)] = share
    return shares
