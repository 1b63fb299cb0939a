"""Kubeflow Pipelines as a pipeline target: training as a job of the cluster, and Kubernetes settings of the steps."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes
from kfp.pipeline_spec.pipeline_spec_pb2 import PlatformSpec

from qcnn.components.definitions.kubeflow import train
from qcnn.components.resources import is_pinned
from qcnn.components.training_job import RUN_FIELD, RUN_VARIABLE
from qcnn.errors import ConfigError, single_line
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings
from qcnn.pipelines.compiler import PipelineTarget
from qcnn.pipelines.parts import TrainStep

# Executor of the train step, which launches the job, and the label by which Prometheus discovers its metrics.
_LAUNCHER = "exec-train"
LAUNCHER_LABEL = {"qcnn/launcher": "true"}


def platform(executors: Sequence[str], pod: PodSettings) -> PlatformSpec:
    """Return the Kubernetes settings of executors: the pod settings that apply to every step.

    Raises:
        ConfigError: If a toleration is not valid.
    """
    config = kubernetes.KubernetesExecutorConfig(
        image_pull_policy=pod.pull_policy,
        image_pull_secret=[kubernetes.ImagePullSecret(secret_name=name) for name in pod.pull_secrets],
        tolerations=[_toleration(each) for each in pod.tolerations],
        secret_as_env=[_secret(variable, *place.split("/")) for variable, place in pod.secrets.items()],
        field_path_as_env=[kubernetes.FieldPathAsEnv(name=RUN_VARIABLE, field_path=RUN_FIELD)],
    )
    if pod.node_selector:
        config.node_selector.labels.update(pod.node_selector)
    if pod.labels:
        config.pod_metadata.labels.update(pod.labels)
    spec = PlatformSpec()
    configured = spec.platforms["kubernetes"].deployment_spec.executors
    for name in executors:
        configured[name].update(json_format.MessageToDict(config))
        if pod.metrics_port is not None and name == _LAUNCHER:
            labels = configured[name].get_or_create_struct("podMetadata").get_or_create_struct("labels")
            labels.update(LAUNCHER_LABEL)
    return spec


def _toleration(values: Mapping[str, Any]) -> kubernetes.Toleration:
    try:
        return json_format.ParseDict(dict(values), kubernetes.Toleration())
    except json_format.ParseError as error:
        raise ConfigError(
            f"pod.tolerations: must be as in a pod's spec ({single_line(error)}). Given: {dict(values)}"
        ) from None


def _secret(variable: str, name: str, key: str) -> kubernetes.SecretAsEnv:
    keys = [kubernetes.SecretAsEnv.SecretKeyToEnvMap(secret_key=key, env_var=variable)]
    return kubernetes.SecretAsEnv(secret_name=name, key_to_env=keys)


def train_on_kubernetes(pod: PodSettings) -> TrainStep:
    """Return a train step that trains as a job of the cluster with these pod settings.

    The step is cached only if the image is pinned, because the image of a tag can change and train differently. A trial
    is never cached, because the cache would keep its failure.
    """
    settings = json.dumps(pod.model_dump())

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
        task = train(experiment=experiment, pod=settings, dataset=dataset, trial=trial)
        return task.set_caching_options(is_pinned(pod.image) and not trial)

    return step


KUBEFLOW = PipelineTarget(
    train=train_on_kubernetes,
    # deploy/rbac.yaml creates it for the training pods, which watch the Lease of their launcher.
    pod_defaults={"service_account": WORKER_ACCOUNT},
    platform=platform,
)
