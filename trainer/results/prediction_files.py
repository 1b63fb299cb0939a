"""Which files predictions are made of and go to."""

import dataclasses

from trainer.errors import ConfigError
from trainer.tables.endings import check_ending

_PAGE_ENDING = ".html"


@dataclasses.dataclass(frozen=True)
class Files:
    """What is predicted, where predictions go, and a page about them where one is wanted: paths or addresses."""

    data: str
    output: str
    report: str = ""

    def __post_init__(self) -> None:
        """Refuse files of other kinds, and to write over what is read.

        Raises:
            ConfigError: a name ends otherwise, or is that of the data.
        """
        check_ending("data", self.data)
        check_ending("output", self.output)
        if self.report and not self.report.endswith(_PAGE_ENDING):
            raise ConfigError(f"report: must end in {_PAGE_ENDING}. Given: {self.report}")
        if self.output == self.data:
            raise ConfigError(f"output: must be another file than the data. Given: {self.output}")


def files_of(data: str | None, output: str | None, report: str | None) -> Files | None:
    """Return the files that a command is given, None where it is given none.

    Raises:
        ConfigError: some are missing, or of another kind.
    """
    if data and output:
        return Files(data, output, report or "")
    given = {"--data": data, "--output": output, "--report": report}
    if names := [name for name, value in given.items() if value is not None]:
        raise ConfigError(
            f"predict: takes --data and --output together, and --report with both. Given: {' '.join(names)}"
        )
    return None
