"""Whether a bucket can hold the artifacts of a run."""

import click

from qcnn.jobs.vertex.location import Place
from qcnn.storage.uri import in_bucket


def check_bucket(root: str, place: Place) -> None:
    """Refuse a bucket that does not exist; warn of one in another region, to which every step would copy.

    Raises:
        ConfigError: it does not exist, or there are no credentials.
    """
    # It takes a second to load.
    from qcnn.storage.gcs import bucket_region

    address = in_bucket(root)
    assert address
    region = bucket_region(address, place.project)
    if region and region != place.location:
        click.echo(
            f"warning: pipeline root: the bucket is in {region}, the run in {place.location}; copies between them are "
            f"slow and cost. Given: {root}",
            err=True,
        )
