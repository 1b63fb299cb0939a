"""How often the backend starts a failed step again by itself."""

from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PipelineTaskSpec

# The backend decides after which kinds of failure a step is tried again. Backend 2.17 has Argo retry a step whose pod
# is gone, but no step that ends with an error; Argo's own default is the reverse.
_RETRIES = 2
# The first step refuses an experiment that cannot run, and every retry delays that message.
_RETRIES_OF_FIRST = 1
# A step that trains for days loses its pod more often than others. It goes on from where it was, and does not repeat a
# training that failed by its own fault.
_RETRIES_OF_TRAINING = 5
_TRAINING = "train"
_WAIT_SECONDS, _FACTOR = 10, 1.0
# Counted from the start of the first try; Argo ends a later try that exceeds it (operator.go, processNodeRetries).
# Kubeflow's SDK caps it at an hour, which would end longer trainings. Vertex AI documents it as the longest wait
# between two tries ("Configure retries for a pipeline task"), pipeline_spec.proto as the time in which a task is tried
# again: by both, a long time is right.
_WITHIN_SECONDS = 365 * 86400


def retried(spec: PipelineSpec) -> None:
    """Have every step of a compiled pipeline tried again, also those in its loops."""
    for component in (spec.root, *spec.components.values()):
        # What imports a file fails for no reason that passes.
        imports = [name for name, task in component.dag.tasks.items() if _is_importer(spec, task)]
        for name, task in component.dag.tasks.items():
            if spec.components[task.component_ref.name].executor_label and name not in imports:
                is_first = component is spec.root and set(task.dependent_tasks) <= set(imports)
                usual = _RETRIES_OF_FIRST if is_first else _RETRIES
                task.retry_policy.CopyFrom(_policy(_RETRIES_OF_TRAINING if name == _TRAINING else usual))


def _is_importer(spec: PipelineSpec, task: PipelineTaskSpec) -> bool:
    label = spec.components[task.component_ref.name].executor_label
    return bool(label) and "importer" in spec.deployment_spec["executors"][label]


def _policy(retries: int) -> PipelineTaskSpec.RetryPolicy:
    policy = PipelineTaskSpec.RetryPolicy(max_retry_count=retries, backoff_factor=_FACTOR)
    policy.backoff_duration.seconds = _WAIT_SECONDS
    policy.backoff_max_duration.seconds = _WITHIN_SECONDS
    return policy
