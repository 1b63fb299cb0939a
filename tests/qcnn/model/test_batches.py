import numpy as np
import pytest

from qcnn import data
from qcnn.model.batches import shard, shard_by_qubit


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 31, 97, 101, 112])
def test_shard_every_sample_has_weight_once(count: int, replicas: int) -> None:
    samples = data.sample_excitations(count, 1, seed=0)
    shards = shard(samples, 32, replicas)
    real = shards.weight > 0
    assert sorted(shards.inputs["qubit"][real]) == list(range(count))
    assert shards.sizes.sum() == count
    for step, size in enumerate(shards.sizes):
        assert real[step].sum() == size
        assert set(shards.inputs["qubit"][step][real[step]]) == set(range(32 * step, 32 * step + size))
        np.testing.assert_allclose(shards.weight[step].sum(), 1, rtol=1e-6)
        shares = real[step].sum(axis=1)
        assert shares.max() - shares.min() <= 1


def test_shard_replica_may_be_empty() -> None:
    shards = shard(data.sample_excitations(97, 1, seed=0), 32, 2)
    assert (shards.weight[-1] > 0).sum(axis=1).tolist() == [1, 0]


@pytest.mark.parametrize(("replicas", "width"), [(1, 5), (2, 3), (3, 2), (5, 1), (7, 1)])
def test_shard_by_qubit_assigns_each_qubit_once_in_order(replicas: int, width: int) -> None:
    samples = data.sample_excitations(5, 20, seed=0)
    shards, alone = shard_by_qubit(samples, 32, replicas, qubits=5), shard(samples, 32, 1)
    for name, array in alone.arrays.items():
        np.testing.assert_array_equal(shards.arrays[name], array)
    own = shards.own
    assert own is not None
    assert own.shape == (replicas, width)
    assert sorted(own[own >= 0]) == list(range(5))
    # Shapes do not depend on the order of samples, so no epoch is compiled again.
    permuted = shard_by_qubit(samples.take(data.epoch_order(0, 1, len(samples))), 32, replicas, qubits=5)
    assert [array.shape for array in permuted.arrays.values()] == [array.shape for array in shards.arrays.values()]
