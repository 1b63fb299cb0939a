"""Validation of settings."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from infra.settings import InfraSettings, parse_settings, read_settings
from qcnn.errors import ConfigError
from tests.infra.conftest import ROOT

FILE = ROOT / "infra" / "settings.yaml"


def _values() -> dict[str, Any]:
    values: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text())
    return values


def test_settings_file_documents_all_fields() -> None:
    assert list(_values()) == list(InfraSettings.model_fields)
    lines = FILE.read_text().splitlines()
    for name in InfraSettings.model_fields:
        (number,) = [number for number, line in enumerate(lines) if line.startswith(f"{name}:")]
        assert lines[number - 1].startswith("# "), name


def test_settings_file_has_parameters_of_the_tutorial() -> None:
    for word in (
        "CLUSTER_NAME",
        "PROJECT",
        "NUM_NODES",
        "MACHINE_TYPE",
        "SERVICE_ACCOUNT_NAME",
        "ZONE",
        "BUCKET_REGION",
    ):
        assert f"\n# {word}: " in FILE.read_text()
        assert word.lower() in InfraSettings.model_fields


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("project", "My Project", "a project ID"),
        ("project", 12, "a project ID"),
        ("project", "--help", "a project ID"),
        ("cluster_name", "x" * 41, "1 to 40"),
        ("zone", "us-central1", "a zone such as us-central1-a"),
        ("bucket_name", "gs://bucket", "without gs://"),
        ("bucket_region", "US", "a region such as us-central1"),
        ("num_nodes", 0, "an integer, 1 to 1000"),
        ("num_nodes", True, "an integer, 1 to 1000"),
        ("num_nodes", "4", "an integer, 1 to 1000"),
        ("machine_type", "n2 standard", "a machine type such as n2-standard-8"),
        ("accelerator", "nvidia-l5", "one of nvidia-l4, nvidia-tesla-t4, .*, or empty for no GPU nodes"),
        ("gpus_per_node", 0, "an integer, 1 to 16"),
        ("gpu_machine_type", "g2", "a machine type with GPUs such as g2-standard-8"),
        ("num_gpu_nodes", 1001, "an integer, 1 to 1000"),
        ("service_account_name", "qcnn", "6 to 30"),
        ("launcher_account_name", "a@b.iam.gserviceaccount.com", "without the part from @ on"),
        ("repository_name", "Q", "1 to 63"),
        ("soft_delete_days", 3, "0, or an integer from 7 to 90"),
        ("soft_delete_days", 91, "0, or an integer from 7 to 90"),
    ],
)
def test_invalid_setting_error_has_allowed_values(name: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError, match=rf"^settings\.{name}: must be .*{allowed}.*Given: ") as error:
        parse_settings({**_values(), name: value})
    assert "\n" not in str(error.value)


def test_file_without_gpu_settings_has_no_gpu_nodes() -> None:
    values = {name: value for name, value in _values().items() if "gpu" not in name and name != "accelerator"}
    assert parse_settings(values) == read_settings(FILE)
    assert read_settings(FILE).accelerator == ""


def test_missing_and_unknown_settings_are_reported() -> None:
    with pytest.raises(ConfigError, match=r"^settings\.zone: must be given\. Given: none$"):
        parse_settings({name: value for name, value in _values().items() if name != "zone"})
    with pytest.raises(ConfigError, match=r"^settings\.zones: unknown field; valid fields: project, .*Given: 'a'$"):
        parse_settings({**_values(), "zones": "a"})


def test_accounts_must_be_different() -> None:
    with pytest.raises(
        ConfigError, match=r"must be different names\. Given: qcnn-nodes, qcnn-launcher, qcnn-tensorboard, qcnn-nodes$"
    ):
        parse_settings({**_values(), "service_account_name": "qcnn-nodes"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be a mapping"),
        (b"[1]", "must be a mapping"),
        (b"a: [", "is not valid YAML"),
        (
            b"a: 1\na: 2",
            r'is not valid YAML \(line 2: found duplicate key "a" with value "2" \(original value: "1"\)\)',
        ),
        (b"\xff", "cannot be read"),
    ],
)
def test_invalid_settings_file_is_a_single_line_error(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^settings: .*{message}.*Given: {path}$"):
        read_settings(path)


def test_missing_settings_file_is_a_single_line_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^settings: no such file\. Given: "):
        read_settings(tmp_path / "none.yaml")
