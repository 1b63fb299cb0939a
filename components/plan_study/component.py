"""Step 1 of a study: check it and make its trials."""

from typing import List  # noqa: UP035 - Kubeflow reads this one

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_study(experiment: dict, grid: dict, ranges: dict, random: int) -> List[str]:  # noqa: UP006
    """Refuse a study with a trial that cannot run; pass on the experiment of each trial."""
    from qcnn.components.plan_study.step import plan_study as run

    return run(experiment, grid, ranges, random)
