"""Known datasets in Python, equal to those of qcnn dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from qcnn.datasets.dataset_table import DatasetTable, make, write
from qcnn.datasets.options import parse_options
from qcnn.process.extras import translate_errors

if TYPE_CHECKING:
    from qcnn.api.argument_types import Integer, Number


@translate_errors("qcnn.dataset", "run")
def dataset(
    name: Literal[
        "digits",
        "mnist",
        "fashion_mnist",
        "lines",
        "bars_and_stripes",
        "moons",
        "circles",
        "annni",
        "cluster_ising",
        "bond_alternating_xxz",
    ],
    *,
    output: str | PathLike[str] | None = None,
    source: str | PathLike[str] | None = None,
    classes: str | Sequence[int] = (),
    size: Integer | None = None,
    qubits: Integer | None = None,
    noise: Number | None = None,
    train_samples: Integer | None = None,
    test_samples: Integer | None = None,
    balanced: bool = False,
    validation: Number = 0.2,
    resize: str | tuple[int, int] | None = None,
    pca: Integer | None = None,
    scale: Literal["none", "column", "all"] = "none",
    seed: Integer = 0,
) -> DatasetTable:
    """Return a known dataset as rows, and optionally write it, like `qcnn dataset`.

    Images are resized first, then reduced to principal components, then scaled. All is fitted on the training rows.
    The same arguments give the same rows and files.

    Args:
        name: Name of the dataset, see docs/data.md.
        output: File to write, with its description in `output`.json.
        source: Folder of the four IDX files of mnist or fashion_mnist, plain or with .gz.
        classes: Classes to keep. Of two classes, the first has label 0 and the second label 1. Default: all.
        size: Rows and columns of bars_and_stripes, or number of values of each parameter of a spin chain.
        qubits: Number of qubits of a spin chain.
        noise: Noise of generated rows.
        train_samples: Number of training rows, validation rows included.
        test_samples: Number of test rows. Those of mnist and fashion_mnist are of the official test set.
        balanced: Draw equal numbers of training rows of each class, validation rows included. They differ by at most 1.
        validation: Fraction of the training rows that become the validation split.
        resize: Rows and columns of resized images: bilinear, without antialiasing, as `tf.image.resize`.
        pca: Number of principal components.
        scale: Range of the training rows that becomes [0, pi]: that of each column, of all values, or none.
        seed: Seed of the order of rows and of generated rows.

    Raises:
        ArtifactError: If a file is missing or damaged, or cannot be written.
        ConfigError: If an argument is invalid.
        MissingLibraryError: If scikit-learn is not installed.

    >>> import qcnn
    >>> table = qcnn.dataset("digits", classes=(3, 8), pca=8, scale="all")
    >>> table.x.shape, sorted(set(table.y.tolist())), table.description["rows"]
    ((357, 8), [0, 1], {'train': 214, 'validation': 54, 'test': 89})
    >>> experiment = qcnn.Experiment(encoding="ry", feature_scaling="none")
    >>> qcnn.train(experiment, data=table.columns)  # doctest: +SKIP
    """
    made = make(
        parse_options(
            name,
            source=source,
            classes=classes,
            size=size,
            qubits=qubits,
            noise=noise,
            train_samples=train_samples,
            test_samples=test_samples,
            balanced=balanced,
            validation=validation,
            resize=resize,
            pca=pca,
            scale=scale,
            seed=seed,
        )
    )
    if output is not None:
        write(made, os.fspath(output))
    return made
