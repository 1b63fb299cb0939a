"""Finds the TensorBoard logs of TFJobs."""

from collections.abc import Sequence

from qcnn.cli.local.tensorboard import Logs
from qcnn.errors import ArtifactError
from qcnn.storage.uri import in_bucket


def logs_of_jobs(names: Sequence[str], namespace: str | None, *, in_a_pod: bool = False) -> list[Logs]:
    """Return the logs of TFJobs, which are to be looked at here or `in_a_pod`, which may have the same volumes.

    Raises:
        ArtifactError: there is none of a name, or its pods alone reach its logs.
    """
    if not names:
        return []
    # The cluster's client takes longer to load than everything else here.
    from qcnn.cli.tfjob.connection import cluster, find_job
    from qcnn.jobs.tfjob.status import outputs

    with cluster(namespace) as api:
        addresses = {name: outputs(find_job(api, name)).get("logs", "") for name in names}
    for name, address in addresses.items():
        if not in_bucket(address) and not (in_a_pod and address):
            raise ArtifactError(
                f"TFJob: its logs are on a volume of its pods, at {address or 'no place'}. Given: {name}"
            )
    return [Logs(name, address) for name, address in addresses.items()]
