"""Train the trials of a search, which the tuner of Vertex AI chooses, and pick the best."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tune(
    experiment: dict,
    grid: dict,
    ranges: dict,
    random: int,
    parallelism: int,
    stopping: str,
    pod: str,
    project: str,
    location: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    results: dsl.Output[dsl.Artifact],
    table: dsl.Output[dsl.HTML],
) -> None:
    """Train so many trials as processes of a tuning job; tabulate them, and pass on the best one's training."""
    from qcnn.components.tune.step import tune as run

    # What opens a file looks at its name.
    results.path, table.path = f"{results.path}.csv", f"{table.path}.html"
    search = {"grid": grid, "range": ranges, "random": random}
    place = (project, location)
    found = run(
        experiment, search, (parallelism, stopping), pod, place, dataset.uri, training.uri, (results.path, table.path)
    )
    # Nothing is copied: the artifacts are where the trial has written them.
    training.uri, logs.uri, training.metadata, results.metadata = found
    logs.metadata, table.metadata = training.metadata, results.metadata
