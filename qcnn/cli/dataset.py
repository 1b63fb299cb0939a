"""qcnn dataset: a known dataset as a table for the field data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from qcnn.cli.options.settings import format_option
from qcnn.cli.output import show
from qcnn.tables import check_extension


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help="Table to write (.csv, .parquet, .npz or .jsonl), or its bucket URI.",
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the four IDX files of mnist or fashion_mnist, plain or with .gz.",
)
@click.option("--classes", metavar="LIST", help="Classes to keep, such as 0,1. Two classes have labels 0 and 1.")
@click.option(
    "--size",
    type=int,
    metavar="N",
    help="Rows and columns of bars_and_stripes, or values of each parameter of a chain.",
)
@click.option("--qubits", type=int, metavar="N", help="Number of qubits of a chain.  [default: 8]")
@click.option("--noise", type=float, metavar="X", help="Noise of generated rows.")
@click.option(
    "--train-samples",
    type=int,
    metavar="N",
    help="Number of training rows, validation rows included.  [default: that of the dataset]",
)
@click.option("--test-samples", type=int, metavar="N", help="Number of test rows.  [default: that of the dataset]")
@click.option("--balanced", is_flag=True, help="Draw equal numbers of training rows of each class.")
@click.option(
    "--validation",
    type=float,
    default=0.2,
    show_default=True,
    metavar="FRACTION",
    help="Fraction of the training rows in the validation split.",
)
@click.option("--resize", metavar="ROWSxCOLUMNS", help="Resize images: bilinear, without antialiasing.")
@click.option("--pca", type=int, metavar="N", help="Reduce the columns to N principal components of the training rows.")
@click.option(
    "--scale",
    default="none",
    show_default=True,
    metavar="none|column|all",
    help="Map the range of the training rows to [0, pi]: of each column, or of all values.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of row order and generated rows."
)
@format_option
def dataset(name: str, output: str, output_format: str, **given: Any) -> None:
    """Write the dataset NAME as a table for the field data, and its description to FILE.json.

    NAME is digits, mnist, fashion_mnist, lines, bars_and_stripes, moons, circles, or one of the spin chains annni,
    cluster_ising and bond_alternating_xxz. Nothing is downloaded. Images are resized first, then reduced, then scaled,
    fitted on the training rows.
    """
    # These imports load NumPy.
    from qcnn.datasets.dataset_table import make, write
    from qcnn.datasets.options import parse_options

    options = parse_options(name, **given)
    check_extension("output", output)
    table = make(options)
    digest = write(table, output)
    rows = ", ".join(f"{count} {split}" for split, count in table.description["rows"].items())
    text = f"{output}: {len(table.names)} columns, {len(set(table.y.tolist()))} classes, {rows} rows"
    show(output_format, {**table.description, "sha256": digest, "output": output}, text)
