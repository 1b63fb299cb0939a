"""kfp's own program for a step, with /gcs at another place: python -m tests.vertex.server.pipelines.mounted ..."""

import os

from kfp.dsl import executor_main
from kfp.dsl.types import artifact_types

# The folder that stands for /gcs.
VARIABLE = "VERTEX_SERVER_MOUNT"

if __name__ == "__main__":
    artifact_types._GCS_LOCAL_MOUNT_PREFIX = f"{os.environ[VARIABLE]}/"
    executor_main.executor_main()
