"""Which address is a local folder, and which is in a bucket."""

import pytest

from qcnn.errors import ConfigError
from qcnn.storage.uri import in_bucket


@pytest.mark.parametrize("local", ["runs/a", "/runs/a", ".", "gs:/bucket", "C:\\runs"])
def test_a_path_is_no_bucket(local: str) -> None:
    assert in_bucket(local) is None


@pytest.mark.parametrize("address", ["gs://", "gs:///folder", "http://bucket/folder", "S3://bucket", "://bucket"])
def test_other_addresses_are_refused_in_one_line(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"^address: must be a local folder or gs://BUCKET.* Given: {address}$"):
        in_bucket(address)
