"""How often a step that fails is started again by the backend, by itself."""

from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PipelineTaskSpec

# A backend cannot tell a step that was lost from one that refuses what it is given, so they are few.
_RETRIES = 2
# The first step of a pipeline refuses an experiment that cannot run: whoever waits for that waits for one more try.
_RETRIES_OF_FIRST = 1
_WAIT_SECONDS, _FACTOR = 10, 2.0
# Counted from the first try's start, and Argo ends a later try that runs beyond it (operator.go, processNodeRetries).
# The hour at which Kubeflow's SDK caps this would cut off whatever trains for longer.
_WITHIN_SECONDS = 365 * 86400


def retried(spec: PipelineSpec) -> None:
    """Have every step of a compiled pipeline tried again, also those in its loops."""
    for component in (spec.root, *spec.components.values()):
        for task in component.dag.tasks.values():
            if spec.components[task.component_ref.name].executor_label:
                is_first = component is spec.root and not task.dependent_tasks
                task.retry_policy.CopyFrom(_policy(_RETRIES_OF_FIRST if is_first else _RETRIES))


def _policy(retries: int) -> PipelineTaskSpec.RetryPolicy:
    policy = PipelineTaskSpec.RetryPolicy(max_retry_count=retries, backoff_factor=_FACTOR)
    policy.backoff_duration.seconds = _WAIT_SECONDS
    policy.backoff_max_duration.seconds = _WITHIN_SECONDS
    return policy
