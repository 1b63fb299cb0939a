"""Costs add up, and are put into words."""

import math

import pytest

from trainer.simulators.costs.cost import Cost, Speed, in_words


def test_one_after_the_other_adds_the_work_and_needs_the_larger_memory() -> None:
    one, other = Cost(flops=1, traffic=2, kernels=3, memory=5), Cost(flops=10, traffic=20, kernels=30, memory=4)
    assert one + other == Cost(flops=11, traffic=22, kernels=33, memory=5)
    assert one * 3 == Cost(flops=3, traffic=6, kernels=9, memory=5)


def test_arithmetic_and_traffic_overlap_and_every_kernel_takes_its_time() -> None:
    speed = Speed(flops=10, traffic=100, kernel_seconds=0.5)
    assert speed.seconds(Cost(flops=20, traffic=100, kernels=3)) == 1.5 + 2
    assert speed.seconds(Cost(flops=5, traffic=100, kernels=3)) == 1.5 + 1


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2.0**60, "1.05e+06 TiB"),
        (math.inf, "more than any machine has"),
    ],
)
def test_bytes_are_put_into_words(count: float, words: str) -> None:
    assert in_words(count) == words
