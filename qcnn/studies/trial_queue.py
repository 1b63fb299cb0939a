"""Order in which the processes of a study train its trials."""

from collections.abc import Callable, Iterable

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.program_key import program_key

NumberedTrial = tuple[int, ExperimentConfig]


class TrialQueue:
    """Trials to train. Processes that train at the same time take those of different compiled programs.

    Each process compiles its own programs, which takes longer than many trials.
    """

    def __init__(self, trials: Iterable[NumberedTrial], at_once: int) -> None:
        """Create a queue.

        Args:
            trials: Numbers and experiments of the trials.
            at_once: Number of trials that are trained at the same time. With 1, their order is kept.
        """
        self._key: Callable[[ExperimentConfig], str] = program_key if at_once > 1 else lambda _: ""
        self._groups: dict[str, list[NumberedTrial]] = {}
        for number, config in trials:
            self._groups.setdefault(self._key(config), []).append((number, config))
        self._taken: set[str] = set()

    def take(self, previous: ExperimentConfig | None = None) -> NumberedTrial | None:
        """Remove and return the next trial for a process: of the same program, of a new one, or of any program.

        Args:
            previous: Last trial of the process, or None.

        Returns:
            Number and experiment of the trial, or None if none is left.
        """
        own = self._key(previous) if previous else None
        new = (key for key in self._groups if key not in self._taken)
        # The last group is the most likely to have many trials left.
        chosen = own if own in self._groups else next(new, next(reversed(self._groups), None))
        if chosen is None:
            return None
        self._taken.add(chosen)
        group = self._groups[chosen]
        trial = group.pop(0)
        if not group:
            del self._groups[chosen]
        return trial
