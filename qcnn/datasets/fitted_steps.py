"""Principal components and scaling, fitted on the training rows only, by scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.errors import ConfigError

if TYPE_CHECKING:
    from qcnn.datasets.options import Scale

Table: TypeAlias = npt.NDArray[np.float64]
TRAIN = "train"
# Columns up to which eigenvectors of the covariance are faster than singular vectors of many rows.
_MAX_COVARIANCE = 1000


def reduce(splits: Mapping[str, Table], components: int) -> tuple[dict[str, Table], dict[str, Any]]:
    """Return the principal components of each split, (rows, components), and a description of the fit.

    Each split is transformed by itself, so that the training rows do not depend on the others, to the bit.

    Args:
        splits: Rows of each split, (rows, columns), of which `train` is fitted.
        components: Number of components.

    Raises:
        ConfigError: If there are fewer training rows or columns.
    """
    from sklearn.decomposition import PCA

    rows, columns = splits[TRAIN].shape
    if components > min(rows, columns):
        raise ConfigError(
            f"pca: must be 1 to {min(rows, columns)}, at most the {columns} columns and the {rows} training rows. "
            f"Given: {components}"
        )
    # The default solver of scikit-learn, except that it is randomized for other shapes.
    is_tall = rows >= 10 * columns and columns <= _MAX_COVARIANCE
    fitted = PCA(components, svd_solver="covariance_eigh" if is_tall else "full").fit(splits[TRAIN])
    explained = float(fitted.explained_variance_ratio_.sum())
    if not math.isfinite(explained):
        raise ConfigError(f"pca: the training rows must differ. Given: {rows} equal rows")
    return {name: fitted.transform(values) for name, values in splits.items()}, {"explained_variance_ratio": explained}


def scale(splits: Mapping[str, Table], how: Scale) -> tuple[dict[str, Table], dict[str, Any]]:
    """Map the range of the training rows to [0, pi], and return a description of the fit.

    Other rows can exceed this range. A column without different values becomes 0.

    Args:
        splits: Rows of each split, (rows, columns), of which `train` is fitted.
        how: `column` for the range of each column, `all` for one range of all values, or `none`.
    """
    if how == "none":
        return dict(splits), {}
    from sklearn.preprocessing import MinMaxScaler

    scaler = MinMaxScaler((0, math.pi))
    if how == "column":
        scaler.fit(splits[TRAIN])
        return {name: scaler.transform(values) for name, values in splits.items()}, {}
    scaler.fit(splits[TRAIN].reshape(-1, 1))
    scaled = {name: scaler.transform(values.reshape(-1, 1)).reshape(values.shape) for name, values in splits.items()}
    return scaled, {"minimum": float(scaler.data_min_[0]), "maximum": float(scaler.data_max_[0])}
