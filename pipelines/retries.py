"""How often a step that fails is started again by the backend, by itself."""

from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PipelineTaskSpec

# Which kinds of end are worth another try is the backend's to say: that of 2.17 has its Argo take up again a step whose
# pod is gone, and not one that ends with an error; by Argo's own default it is the other way round.
_RETRIES = 2
# The first step of a pipeline refuses an experiment that cannot run: whoever waits for that waits for one more try.
_RETRIES_OF_FIRST = 1
# The step that trains for days loses its pod more often than others, and takes up what it left; what failed by its own
# fault it does not train again.
_RETRIES_OF_TRAINING = 5
_TRAINING = "train"
_WAIT_SECONDS, _FACTOR = 10, 1.0
# Counted from the first try's start, and Argo ends a later try that runs beyond it (operator.go, processNodeRetries).
# The hour at which Kubeflow's SDK caps this would cut off whatever trains for longer.
_WITHIN_SECONDS = 365 * 86400


def retried(spec: PipelineSpec) -> None:
    """Have every step of a compiled pipeline tried again, also those in its loops."""
    for component in (spec.root, *spec.components.values()):
        for name, task in component.dag.tasks.items():
            if spec.components[task.component_ref.name].executor_label:
                is_first = component is spec.root and not task.dependent_tasks
                usual = _RETRIES_OF_FIRST if is_first else _RETRIES
                task.retry_policy.CopyFrom(_policy(_RETRIES_OF_TRAINING if name == _TRAINING else usual))


def _policy(retries: int) -> PipelineTaskSpec.RetryPolicy:
    policy = PipelineTaskSpec.RetryPolicy(max_retry_count=retries, backoff_factor=_FACTOR)
    policy.backoff_duration.seconds = _WAIT_SECONDS
    policy.backoff_max_duration.seconds = _WITHIN_SECONDS
    return policy
