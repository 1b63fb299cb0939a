"""Where a run of this machine leaves what its steps make."""

import dataclasses
from pathlib import Path

from qcnn.trainer.errors import ArtifactError
from qcnn.trainer.results.description import FILE


@dataclasses.dataclass(frozen=True)
class RunFolders:
    """The folders of a run, by what they hold."""

    run: Path
    dataset: Path
    exported: Path
    evaluation: Path

    @property
    def training(self) -> Path:
        """Checkpoints and the losses of every epoch."""
        return self.run / "train" / "training"

    @property
    def logs(self) -> Path:
        """TensorBoard's."""
        return self.run / "train" / "logs"

    @property
    def metrics(self) -> Path:
        """The file of the metrics."""
        return self.evaluation / "metrics"

    @property
    def report(self) -> Path:
        """The page of the run."""
        return self.evaluation / "report.html"


def of_run(folder: Path) -> RunFolders:
    """Return the folders of a run."""
    return RunFolders(
        folder, folder / "generate-data" / "dataset", folder / "export-weights" / "model", folder / "evaluate"
    )


def model_in(folder: Path, address: object) -> Path:
    """Return the folder of a model, which may be that of its run; errors name the address that it was copied from.

    Raises:
        ArtifactError: there is none.
    """
    for found in (folder, of_run(folder).exported):
        if (found / FILE).is_file():
            return found
    raise ArtifactError(f"model: must be the folder of a model or of a run, with {FILE} in it. Given: {address}")
