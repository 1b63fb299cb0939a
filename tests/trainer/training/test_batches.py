import numpy as np
import pytest

from trainer import data
from trainer.training.batches import shard


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 31, 97, 101, 112])
def test_every_sample_counts_once_whatever_the_number_of_replicas(count: int, replicas: int) -> None:
    samples = data.draw(count, 1, seed=0)
    shards = shard(samples, 32, replicas)
    real = shards.weight > 0
    assert sorted(shards.qubit[real]) == list(range(count))
    assert shards.sizes.sum() == count
    for step, size in enumerate(shards.sizes):
        assert real[step].sum() == size
        assert set(shards.qubit[step][real[step]]) == set(range(32 * step, 32 * step + size))
        np.testing.assert_allclose(shards.weight[step].sum(), 1, rtol=1e-6)
        shares = real[step].sum(axis=1)
        assert shares.max() - shares.min() <= 1


def test_a_replica_may_have_no_sample() -> None:
    shards = shard(data.draw(97, 1, seed=0), 32, 2)
    assert (shards.weight[-1] > 0).sum(axis=1).tolist() == [1, 0]
