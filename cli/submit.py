"""qcnn submit: the experiment elsewhere. Each target has a module of its own."""

import click

from cli.kubeflow.submit import submit_kubeflow
from cli.kubernetes.submit import submit_tfjob

TARGETS: dict[str, click.Command] = {"kubeflow": submit_kubeflow, "tfjob": submit_tfjob}
_HELP = ("-h", "--help")


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    options_metavar=f"--target [{'|'.join(TARGETS)}] [OPTIONS]",
)
@click.option("--target", type=click.Choice(list(TARGETS)), help="Where to; --target NAME --help shows the rest.")
@click.pass_context
def submit(context: click.Context, target: str | None) -> None:
    """Submit an experiment to a cluster, and leave it to it."""
    if target is None:
        if set(context.args) & set(_HELP):
            click.echo(context.get_help())
            return
        raise click.UsageError(f"submit: --target must be given, one of {', '.join(TARGETS)}. Given: none")
    command = TARGETS[target]
    name = f"{context.info_name} --target {target}"
    with command.make_context(name, context.args, parent=context.parent) as of_target:
        command.invoke(of_target)
