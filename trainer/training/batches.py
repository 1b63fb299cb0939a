"""Which replica trains on which sample, in which step: exact for every batch size and number of replicas."""

import dataclasses

import numpy as np
import numpy.typing as npt

from trainer.data import Samples


@dataclasses.dataclass(frozen=True)
class Shards:
    """An epoch's samples, each array (steps, replicas, width), padded with weight 0.

    A sample's weight is one over the true size of its global batch, so that the weighted sum over all
    replicas is the mean over the batch, however uneven the shares. `sizes` (steps,) are those true sizes. `draw`
    (steps, replicas, 4) is what sampled readouts are drawn from (`trainer.shots`), None where they are exact.
    """

    qubit: npt.NDArray[np.int32]
    angle: npt.NDArray[np.float32]
    label: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    draw: npt.NDArray[np.int64] | None = None

    @property
    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """What a training step reads: qubit, angle, label and weight, and the draw if there is one."""
        exact = self.qubit, self.angle, self.label, self.weight
        return exact if self.draw is None else (*exact, self.draw)

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
        qubit=np.where(real, samples.qubit[position], 0).astype(np.int32),
        angle=np.where(real, samples.angle[position], 0).astype(np.float32),
        label=np.where(real, samples.label[position], 0).astype(np.float64),
        weight=np.where(real, 1.0 / sizes[:, None, None], 0),
        sizes=sizes,
    )


def _shares(size: int, replicas: int, width: int) -> npt.NDArray[np.int64]:
    """Return positions within a batch, (replicas, width), -1 where a replica has fewer samples than the widest."""
    shares = np.full((replicas, width), -1, np.int64)
    for replica, share in enumerate(np.array_split(np.arange(size), replicas)):
        shares[replica, : len(share)] = share
    return shares
