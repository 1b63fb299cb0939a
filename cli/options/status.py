"""How a command prints the states of what it looks at, as a flag."""

import click

form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json is complete.",
)
