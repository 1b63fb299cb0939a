"""Selection of the cluster and the namespace."""

from pathlib import Path

import pytest
import yaml

from qcnn.jobs.kubernetes.cluster_config import configuration, own_namespace


def _write(path: Path, server: str, namespace: str) -> str:
    context = {"cluster": "a", "user": "a", "namespace": namespace}
    named = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "a"}}],
        "contexts": [{"name": "a", "context": context}],
    }
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
    return str(path)


def test_configuration_uses_current_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("first", "second"):
        monkeypatch.setenv("KUBECONFIG", _write(tmp_path / name, f"https://{name}:6443", name))
        assert (configuration().host, own_namespace()) == (f"https://{name}:6443", name)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    assert configuration().host == "https://first:6443"


def test_configuration_without_kubeconfig_uses_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    _write(tmp_path / ".kube" / "config", "https://home:6443", "mine")
    assert (configuration().host, own_namespace()) == ("https://home:6443", "mine")
