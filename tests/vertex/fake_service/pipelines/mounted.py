"""KFP's executor with another folder in place of /gcs: python -m tests.vertex.fake_service.pipelines.mounted ..."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kfp.dsl import executor_main
from kfp.dsl.types import artifact_types

# Environment variable with the folder in place of /gcs.
VARIABLE = "VERTEX_SERVER_MOUNT"


def _reject_folders(rename: Callable[..., None], mount: Path) -> Callable[..., None]:
    """Return a rename that fails for folders of the mount, as in Cloud Storage FUSE with its rename-dir-limit of 0."""

    def renamed(source: Any, target: Any, **options: Any) -> None:
        if Path(source).is_dir() and Path(source).is_relative_to(mount):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(source))
        rename(source, target, **options)

    return renamed


if __name__ == "__main__":
    os.rename, os.replace = (_reject_folders(each, Path(os.environ[VARIABLE])) for each in (os.rename, os.replace))
    artifact_types._GCS_LOCAL_MOUNT_PREFIX = f"{os.environ[VARIABLE]}/"
    executor_main.executor_main()
