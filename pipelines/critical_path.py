"""The longest chain of steps that wait for each other; all other steps run beside it."""

from kfp.pipeline_spec.pipeline_spec_pb2 import DagSpec, PipelineSpec


def critical_path(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the names of the longest chain of steps; of a loop, those of one iteration."""

    def longest(dag: DagSpec) -> tuple[str, ...]:
        chains: dict[str, tuple[str, ...]] = {}

        def chain(name: str) -> tuple[str, ...]:
            if name not in chains:
                task = dag.tasks[name]
                component = spec.components[task.component_ref.name]
                before = max(map(chain, task.dependent_tasks), key=len, default=())
                chains[name] = (*before, *(longest(component.dag) if component.HasField("dag") else (name,)))
            return chains[name]

        return max(map(chain, dag.tasks), key=len, default=())

    return longest(spec.root.dag)
