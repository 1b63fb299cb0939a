"""Tables in buckets are read and written as those in local files."""

import numpy as np
import pytest

from qcnn.errors import ConfigError
from qcnn.tables import ENDINGS
from qcnn.tables.table import new_table, open_table


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_goes_to_a_bucket_and_comes_back(bucket: str, ending: str) -> None:
    address = f"{bucket}/folder/data{ending}"
    with new_table(address) as write:
        write({"a": np.arange(3)})
    with open_table(address) as table:
        (piece,) = table.pieces()
        assert piece.columns["a"].tolist() == [0, 1, 2]
        assert table.address == address


def test_a_table_that_is_not_in_its_bucket_is_one_line(bucket: str) -> None:
    with pytest.raises(ConfigError, match=r"^bucket: ") as refused:
        open_table(f"{bucket}/none.csv").__enter__()
    assert len(str(refused.value).splitlines()) == 1
