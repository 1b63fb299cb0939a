"""Key of the compiled program that trains an experiment, without importing TensorFlow."""

from typing import Any

from qcnn.experiment.config import ExperimentConfig, affecting
from qcnn.experiment.fields import Affects
from qcnn.experiment.requirements import STRATEGIES


def program_key(config: ExperimentConfig) -> str:
    """Return a key that is equal for experiments that can share a program.

    With asynchronous workers it has all fields, because optimizers on parameter servers have the learning rate settings
    of the experiment.
    """
    fields: dict[str, Any] = config.model_dump()
    if not STRATEGIES[config.strategy].is_synchronous:
        return repr(sorted(fields.items()))
    options = fields.pop("options")
    # Other fields only change values of variables, the samples, or code outside of the compiled program.
    program = affecting(Affects.PROGRAM)
    relevant = {name: value for name, value in {**fields, **options}.items() if name in program}
    if config.is_file:
        # Files with the same number of columns have the same program, and shapes are compared when it is called.
        relevant["data"] = ""
    return repr(sorted(relevant.items()))
