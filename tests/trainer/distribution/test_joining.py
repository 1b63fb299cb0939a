import pytest

from qcnn.trainer.distribution.joining import connect_directly
from qcnn.trainer.distribution.roles import Cluster

CLUSTER = Cluster({"worker": ("train-worker-0.team.svc:2222", "127.0.0.1:80"), "ps": ("[::1]:80",)}, "worker", 0)
HOSTS = "train-worker-0.team.svc,127.0.0.1,::1"


@pytest.mark.parametrize(
    ("environment", "exempt"),
    [
        ({}, HOSTS),
        ({"no_proxy": "a.org,127.0.0.1"}, "a.org,127.0.0.1,train-worker-0.team.svc,::1"),
        # gRPC does not read no_proxy where the other is set.
        ({"no_proxy": "a.org", "no_grpc_proxy": "b.org"}, f"b.org,{HOSTS}"),
    ],
)
def test_the_hosts_of_a_cluster_are_exempt_from_proxies(environment: dict[str, str], exempt: str) -> None:
    before = dict(environment)
    connect_directly(CLUSTER, environment)
    assert environment == {**before, "no_grpc_proxy": exempt}
    connect_directly(CLUSTER, environment)
    assert environment["no_grpc_proxy"] == exempt
