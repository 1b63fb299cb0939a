"""qcnn delete: TFJobs and all that belongs to them."""

from collections.abc import Sequence

import click

from qcnn.cli.options.form import form_option, show_table, shown_only_option
from qcnn.cli.options.settings import namespace_option
from qcnn.cli.output import check_one_given, confirm
from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.job import check_run
from qcnn.jobs.tfjob import cleanup, status
from qcnn.jobs.tfjob.cleanup import Found
from qcnn.targets.tfjob.client import cluster

_HEADER = ("kind", "name", "run", "state")


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB]...")
@click.option("--run", metavar="NAME", help="Everything that belongs to the run of exactly this name.")
@click.option("--kind", type=click.Choice(["TFJob", "Job"]), help="Of --run only these: trainings, or predictions.")
@click.option(
    "--orphans", is_flag=True, help="TFJobs whose launcher is gone, and what is left of TFJobs that are gone."
)
@click.option("--all", "of_all", is_flag=True, help="Everything that qcnn made in the namespace.")
@namespace_option
@form_option
@shown_only_option
@click.option("--yes", is_flag=True, help="Delete without asking.")
def delete(
    names: tuple[str, ...],
    run: str | None,
    kind: str | None,
    orphans: bool,
    of_all: bool,
    namespace: str | None,
    form: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show TFJobs, or Jobs that predict, with all that belongs to them, and delete them; wait until they are gone.

    What the training has written stays.
    """
    check_one_given({"JOB": bool(names), "--run": run is not None, "--orphans": orphans, "--all": of_all})
    if run is not None:
        check_run(run)
    elif kind is not None:
        raise ConfigError(f"kind: needs --run. Given: {kind}")
    with cluster(namespace) as api:

        def choose() -> list[Found]:
            everything = cleanup.find_all(api)
            if orphans:
                chosen = cleanup.orphans(everything, api.now())
            else:
                chosen = _chosen(cleanup.jobs(everything), names, run, kind, api.namespace)
            return cleanup.with_dependents(chosen, everything)

        chosen = choose()
        show_table(form, _HEADER, _rows(chosen), f"nothing to delete in namespace {api.namespace}")
        if dry_run or not chosen:
            return
        confirm(len(chosen), yes)
        # A launcher may have come back to its job meanwhile.
        still = {found.uid for found in (choose() if orphans else chosen)}
        cleanup.delete(api, [found for found in chosen if found.uid in still])
        click.echo("deleted", err=form == "json")


def _chosen(
    own: Sequence[Found], names: Sequence[str], run: str | None, kind: str | None, namespace: str
) -> list[Found]:
    """Return the objects with these names, those of a run and of a kind, or all."""
    if missing := sorted(set(names) - {found.name for found in own}):
        is_run = any(found.run == missing[0] for found in own)
        hint = f"; all that belongs to the run of this name: --run {missing[0]}" if is_run else ""
        raise ArtifactError(f"job: qcnn made none of this name in namespace {namespace}{hint}. Given: {missing[0]}")
    if run is not None:
        return [found for found in cleanup.belonging_to(run, own) if kind in (None, found.kind)]
    return [found for found in own if not names or found.name in names]


def _rows(chosen: Sequence[Found]) -> list[tuple[str, str, str | None, str]]:
    return [
        (found.kind, found.name, found.run, status.state(found.object) if found.kind == "TFJob" else "")
        for found in chosen
    ]
