"""Pricing of remote targets."""

from collections.abc import Callable
from typing import Any

import pytest

from qcnn.costs.platforms import PricingPlatform, on_kubernetes, on_vertex
from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.pricing import CostEstimate, Prices, load_default_prices


def pod(**settings: Any) -> PodSettings:
    return pod_settings({"image": "qcnn", **settings})


@pytest.mark.parametrize("platform", [on_kubernetes, on_vertex])
def test_cost_depends_on_settings_of_roles(platform: Callable[[PodSettings, Prices], PricingPlatform]) -> None:
    def bill(**roles: Any) -> CostEstimate:
        return platform(pod(cpu="7", memory="4Gi", roles=roles), load_default_prices()).bill(replicas, 3600)

    replicas = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 0}
    uniform = bill()
    # The cost is equal if roles repeat the settings, or if the job has no process of the role.
    assert bill(chief={"cpu": "7"}, ps={"memory": "4Gi"}) == bill(evaluator={"cpu": "60"}) == uniform
    large = bill(ps={"memory": "200Gi"})
    assert large.dollars > uniform.dollars
    assert " and " in large.machine
    assert " and " not in uniform.machine
    assert bill(chief={"memory": "200Gi"}, ps={"memory": "200Gi"}).dollars > large.dollars


def test_cores_are_those_of_the_worker_role() -> None:
    requested = pod(cpu="1", memory="4Gi", roles={"worker": {"cpu": "7"}, "ps": {"cpu": "2"}})
    assert on_kubernetes(requested, load_default_prices()).cores == 7
    assert on_vertex(requested, load_default_prices()).cores == 8


def test_vertex_cores_are_those_of_the_machine_type() -> None:
    assert on_vertex(pod(cpu="3"), load_default_prices()).cores == 4
    assert on_vertex(pod(cpu="3"), load_default_prices(), "n2-standard-16").cores == 16


@pytest.mark.parametrize("settings", [{"cpu": "0"}, {"memory": "0"}, {"cpu": "1e999"}, {"roles": {"ps": {"cpu": 0}}}])
def test_pod_without_resources_has_no_estimate(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^pod\.\w+: must be above 0 and finite to be estimated\. Given: (0|1e999)$"):
        on_kubernetes(pod(**settings), load_default_prices())
