"""qcnn study --target local: trials on the local machine."""

from __future__ import annotations

from pathlib import Path

import click

from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.search import STUDY_NOTES, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import format_option, runs_option, tracking_option
from qcnn.cli.output import show, stdout_to_stderr
from qcnn.cli.run import summary, to_json
from qcnn.cli.terminal import terminal
from qcnn.components.local_steps import BestTrial
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.local_run import read_metrics
from qcnn.run_names import timestamp
from qcnn.studies.published_files import described_files
from qcnn.studies.record import has_succeeded, load_trials, read_table, save_trials
from qcnn.studies.tables import DATASETS, StudyTables
from qcnn.studies.trials import PARALLELISM, StudyPlan
from qcnn.targets.local.study_runs import checked_trials, run_study

_HELP = f"""
Run the trials of a hyperparameter search locally and evaluate the best.
{STUDY_NOTES}"""


@click.command(help=_HELP)
@search_options
@runs_option
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="STUDY", help="Resume STUDY, skipping finished trials."
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the IDX files of the study's datasets, see `qcnn dataset`.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(min=1),
    default=PARALLELISM,
    show_default=True,
    metavar="INTEGER",
    help="Maximum number of parallel trials. Cores, memory and GPUs may reduce it.",
)
@click.option("--list", "is_list", is_flag=True, help="List the files of published experiments and exit.")
@tracking_option
@format_option
@experiment_options
def study(
    search: SearchOptions,
    runs: Path,
    resume: Path | None,
    source: Path | None,
    parallelism: int,
    is_list: bool,
    output_format: str,
    options: ExperimentOptions,
) -> None:
    """Run a study locally, or resume it."""
    if is_list:
        files = described_files()
        lines = [f"{name.ljust(max(map(len, files)))}  {description}" for name, description in files.items()]
        show(output_format, files, "\n".join(lines))
        return
    if resume and (search.given or options.given or source):
        given = " ".join(["--resume", *search.given, *options.given, *(["--source"] if source else [])])
        raise ConfigError(f"study: must not have fields or a search space with --resume. Given: {given}")
    with stdout_to_stderr(output_format):
        if resume:
            folder, selected = resume_study(resume, parallelism)
        else:
            folder = runs / f"qcnn-study-{timestamp()}"
            tables = StudyTables(folder.absolute() / DATASETS, source)
            selected = new_study(read_study(search, options, tables), folder, tables, parallelism)
    outputs, metrics = artifacts(selected), read_metrics(selected.folders)
    rows = {"rows": read_table(selected.rows)} if selected.rows else {}
    result = {**rows, "trials": read_table(selected.results), **to_json(metrics, outputs)}
    show(output_format, result, summary(metrics, outputs, "--runs", str(folder)))


def new_study(study: StudyPlan, folder: Path, tables: StudyTables, parallelism: int) -> BestTrial:
    """Run the trials of a new study in its folder, and select and evaluate the best.

    Args:
        study: Study to run.
        folder: New folder of the study.
        tables: Where its datasets are written.
        parallelism: Maximum number of parallel trials.

    Returns:
        The best trial.

    Raises:
        QcnnError: If a trial cannot run, see `check_experiments`.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    with terminal(folder) as observer:
        tables.write(study.datasets, study.trials)
        trials = checked_trials(study.trials, parallelism, observer)
        save_trials(trials.experiments, folder, study.metric, study.repeated)
        return run_study(trials, folder, observer)


def resume_study(folder: Path, parallelism: int) -> tuple[Path, BestTrial]:
    """Run the unfinished trials of a study in its folder, and select and evaluate the best.

    Args:
        folder: Folder of the study.
        parallelism: Maximum number of parallel trials.

    Returns:
        The folder of the study, and the best trial.

    Raises:
        ArtifactError: If the folder is not a study, the study has succeeded, or another process runs it.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    trials = load_trials(folder)
    if has_succeeded(folder):
        raise ArtifactError(f"study: must be unfinished. Given: {folder}, which has succeeded")
    with terminal(folder) as observer:
        return folder, run_study(checked_trials(trials, parallelism, observer), folder, observer)


def artifacts(selected: BestTrial) -> dict[str, Path]:
    """Return the paths of a study's artifacts by name."""
    return {
        **({"rows": selected.rows} if selected.rows else {}),
        "results": selected.results,
        "table": selected.table,
        "model": selected.folders.exported,
        "metrics": selected.folders.metrics,
        "predictions": selected.folders.predictions,
        "report": selected.folders.report,
    }
