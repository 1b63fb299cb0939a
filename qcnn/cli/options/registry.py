"""Option of the commands that read or write a model registry."""

import click

from qcnn.registry.address import DEFAULT, VARIABLE

# Adds --registry to a command, and passes it `registry`, the path or URI or None for the default.
registry_option = click.option(
    "--registry",
    metavar="FOLDER|URI",
    help=f"Model registry: a folder, or one in a bucket.  [env var: {VARIABLE}; default: {DEFAULT}]",
)
