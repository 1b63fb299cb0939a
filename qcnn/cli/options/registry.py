"""Option of the commands that read or write a model registry."""

import click

from qcnn.registry.address import DEFAULT, HELP, VARIABLE

# Adds --registry to a command, and passes it `registry`, the address or None for the default.
registry_option = click.option(
    "--registry",
    metavar="FOLDER|URI",
    help=f"{HELP}  [env var: {VARIABLE}; default: {DEFAULT}]",
)
