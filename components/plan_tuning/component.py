"""Step 1 of a search by a tuner: check it."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_tuning(experiment: dict, grid: dict, ranges: dict, random: int) -> str:
    """Refuse a search with a trial that cannot run, or with trials of other data; pass on the experiment of one."""
    from qcnn.components.plan_tuning.step import plan_tuning as run

    return run(experiment, grid, ranges, random)
