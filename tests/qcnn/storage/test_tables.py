"""Tables in buckets."""

import numpy as np
import pytest

from qcnn.data.sidecar import read_sidecar
from qcnn.datasets.dataset_table import make, write
from qcnn.datasets.options import parse_options
from qcnn.errors import ConfigError
from qcnn.tables import EXTENSIONS
from qcnn.tables.table import new_table, open_table


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_table_in_bucket_is_read_as_written(bucket: str, ending: str) -> None:
    address = f"{bucket}/folder/data{ending}"
    with new_table(address) as write_rows:
        write_rows({"a": np.arange(3)})
    with open_table(address) as table:
        (piece,) = table.pieces()
        assert piece.columns["a"].tolist() == [0, 1, 2]
        assert table.address == address


def test_open_table_missing_in_bucket_is_single_line_error(bucket: str) -> None:
    with pytest.raises(ConfigError, match=r"^bucket: ") as raised:
        open_table(f"{bucket}/none.csv").__enter__()
    assert len(str(raised.value).splitlines()) == 1


def test_description_of_dataset_in_bucket_is_read(bucket: str) -> None:
    warnings: list[str] = []
    table, uri = make(parse_options("lines")), f"{bucket}/lines.csv"
    assert read_sidecar(uri, "", warnings.append) == {}
    digest = write(table, uri)
    assert read_sidecar(uri, digest, warnings.append) == table.description
    assert not warnings
