"""Addresses of registries in pipelines."""

import pytest

from qcnn.errors import ConfigError
from qcnn.registry.registration_settings import RegistrationSettings


@pytest.mark.parametrize(
    "registry",
    [
        "gs://bucket/models",
        "/models",
        "mlflow:http://mlflow.lab:5000",
        "kubeflow:http://registry.kubeflow:8080#gs://bucket/models",
        "kubeflow:https://gateway.lab/registry/#/models",
    ],
)
def test_registry_that_steps_can_reach_is_accepted(registry: str) -> None:
    assert RegistrationSettings("digits", registry).registry == registry


@pytest.mark.parametrize(
    ("registry", "line"),
    [
        ("models", "registry: must be gs://BUCKET/FOLDER"),
        ("mlflow:http://user:planted@host", "registry: must have no credentials for a step of a pipeline; set MLFLOW_"),
        (
            "mlflow:http://host?token=planted",
            "registry: must have no credentials for a step of a pipeline; set MLFLOW_",
        ),
        ("kubeflow:http://user:planted@host#gs://bucket/a", "registry: must have no credentials; set KF_PIPELINES_SA_"),
        (
            "kubeflow:http://host?token=planted#gs://bucket/a",
            "registry: must be kubeflow:http://HOST or kubeflow:https",
        ),
        ("kubeflow:http://host#gs://user:planted@bucket", "uri: must not contain a user name or password"),
        ("kubeflow:http://host", "registry: the folder of the files: must be gs://BUCKET/FOLDER"),
    ],
)
def test_registry_with_secrets_is_rejected_in_pipelines(registry: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        RegistrationSettings("digits", registry)
    assert str(error.value).startswith(line)
    assert "planted" not in str(error.value)
