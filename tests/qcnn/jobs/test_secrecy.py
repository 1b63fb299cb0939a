"""What of a pod's environment looks like a secret."""

import pytest

from qcnn.jobs.secrecy import secrets_in


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("aws_secret_access_key", "abc"),
        ("MINIO_SECRET", "abc"),
        ("HF_TOKEN", "abc"),
        ("DB_PASSWORD", "abc"),
        ("API_KEY", "abc"),
        ("PROXY", "http://me:word@proxy:80"),
        ("CONTENT", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
        ("ID", "AKIAABCDEFGHIJKLMNOP"),
    ],
)
def test_a_secret_is_seen_by_name_or_value(name: str, value: str) -> None:
    assert secrets_in({"A": "b", name: value}) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ACCESS_KEY_ID", "minio"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/var/secrets/key.json"),
        ("TOKEN_FILE", "token"),
        ("SECRET", ""),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("AWS_ENDPOINT_URL", "http://minio-service.kubeflow:9000"),
        ("KEYBOARD", "de"),
        ("STORAGE_EMULATOR_HOST", "http://10.244.0.1:4443"),
        ("COMPASS", "north"),
    ],
)
def test_what_is_none_is_not_warned_of(name: str, value: str) -> None:
    assert secrets_in({name: value}) == []
