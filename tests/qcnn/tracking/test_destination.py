import pytest

from qcnn.errors import ConfigError
from qcnn.tracking.destination import (
    REQUEST_SECONDS,
    REQUEST_VARIABLE,
    Destination,
    destination_in,
    parse_destination,
    pod_variables,
    request_seconds,
)

SECRET = "https://name:pass%2Fword@host:5000/path?token=abc123#part"


@pytest.mark.parametrize(
    "text", ["", "mlflow", "mlflow:", "http://host", "wandb:http://host", "mlflow: x", "mlflow:a\nb"]
)
def test_invalid_tracking_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^tracking: must be mlflow:URI, such as .* Given: "):
        parse_destination(text)


def test_environment_names_server() -> None:
    assert destination_in({}) is None
    assert destination_in({"MLFLOW_TRACKING_URI": " "}) is None
    assert destination_in({"MLFLOW_TRACKING_URI": "http://host"}) == Destination("http://host")


def test_texts_contain_no_secrets() -> None:
    found = parse_destination(f"mlflow:{SECRET}")
    assert found.uri == SECRET
    assert found.display_name == "https://***@host:5000/path"
    other = Destination(SECRET, ("bearer-token",))
    texts = [repr(found), found.display_name]
    texts += [
        other.redact(f"{SECRET} failed"),
        other.redact("user name, password pass/word or pass%2Fword, ?token=abc123#part, bearer-token"),
    ]
    for text in texts:
        assert not [secret for secret in ("pass%2F", "pass/", "abc123", "bearer", "#part") if secret in text], text


def test_pods_get_server_by_variable() -> None:
    assert pod_variables("mlflow:http://mlflow.lab:5000/a") == {"MLFLOW_TRACKING_URI": "http://mlflow.lab:5000/a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mlflow:./mlruns",
            "tracking: must be mlflow:http://HOST or mlflow:https://HOST for pods. Given: mlflow:./mlruns",
        ),
        (f"mlflow:{SECRET}", "Given: mlflow:https://***@host:5000/path"),
        ("mlflow:http://host?token=abc", "Given: mlflow:http://host"),
    ],
)
def test_pods_cannot_get_secrets_or_local_servers(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pod_variables(text)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, REQUEST_SECONDS), ("60", 60), ("0", REQUEST_SECONDS), ("a", REQUEST_SECONDS)]
)
def test_duration_of_request_is_that_of_the_client(value: str | None, expected: float) -> None:
    assert request_seconds({REQUEST_VARIABLE: value} if value else {}) == expected
