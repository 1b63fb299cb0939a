"""Types of experiment fields: allowed values, conversions and metadata."""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar, get_args, get_origin

import annotated_types
from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.fields import FieldInfo

from qcnn.circuits import noise as noises
from qcnn.circuits.chains import CHAINS
from qcnn.circuits.formats.embedded import JSON, MODELS, QASM, QPY, embedded_content, is_file
from qcnn.circuits.functions import is_function_name
from qcnn.errors import ConfigError, has_credentials
from qcnn.experiment.requirements import STRATEGIES
from qcnn.simulators import registry
from qcnn.storage.store import SCHEMES, parse_bucket_uri
from qcnn.tables import EXTENSIONS, extension_of

EXCITATIONS = "excitations"
# Samples generated from the seed, and computed ground states; other data are functions and the rows of files.
GENERATED = (EXCITATIONS, *CHAINS)
# Rows that `qcnn.train` is given, which it writes to a file.
MEMORY = "memory"
BATCH_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
TARGET_LOSS = re.compile(r"(floor\+)?((?:[0-9]{1,9}\.?|[0-9]{0,9}\.[0-9]{1,20})(?:e-?[0-9]{1,2})?)")
_GPUS = re.compile(r"[0-9]{1,2}(,[0-9]{1,2})*")
_MEMORY = re.compile(r"growth|(?:[0-9]{1,4}(?:\.[0-9]{1,6})?)")
# Classes of a data file. Two classes without a file are those of generated samples.
MAX_CLASSES = 100
# Maximum magnitude of a number that is accepted as the text of a field.
_MAX_NUMBER_AS_TEXT = 1e9


class Affects(enum.Flag):
    """Parts of a run that depend on a field.

    `NUMBERS`: the training result; a training run resumes only with the same value. `PROGRAM`: the compiled TensorFlow
    functions; the trials of a study share a program only with the same value. `ROWS`: how the rows of a file are read.
    `DISTRIBUTION`: processes and machines. `MACHINE`: settings of a process that must be applied before TensorFlow
    starts. `LENGTH`: where training starts and ends. `RUN`: only how a run proceeds.
    """

    NUMBERS = enum.auto()
    PROGRAM = enum.auto()
    ROWS = enum.auto()
    DISTRIBUTION = enum.auto()
    MACHINE = enum.auto()
    LENGTH = enum.auto()
    RUN = enum.auto()


class Purpose(enum.Enum):
    """Group of a field in the reference pages."""

    DATA = "Data"
    MODEL = "Model"
    SIMULATION = "Simulation and noise"
    OPTIMIZATION = "Optimization"
    DISTRIBUTION = "Distribution"
    FAULT_TOLERANCE = "Fault tolerance"
    MONITORING = "Monitoring"
    DEVICES = "Devices"


@dataclass(frozen=True)
class AllowedValues:
    """Description of the values that a text field accepts."""

    text: str


def _integer(value: object) -> object:
    """Return 8 for 8.0: pipeline structs carry every number as a double."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_switch(value: object) -> object:
    """Return True for 1 and False for 0."""
    return value == 1 if isinstance(value, int | float) and value in (0, 1) else value


def _number_as_text(value: object) -> object:
    """Return the text of a number, such as "0.2" for 0.2, and the empty text for None."""
    value = _integer(value)
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER_AS_TEXT
    return repr(value) if is_number else value


def _integer_as_text(value: object) -> object:
    """Return the text of an integer. A float stays: its text is unknown, as 1.10 is read as 1.1."""
    return value if isinstance(value, float) else _number_as_text(value)


def _validate_batch_range(value: str) -> str:
    bounds = BATCH_RANGE.fullmatch(value)
    if value and not (bounds and 1 <= int(bounds[1]) <= int(bounds[2])):
        raise ValueError("not a range of batches")
    return value


def _validate_target_loss(value: str) -> str:
    if value and not TARGET_LOSS.fullmatch(value):
        raise ValueError("not a loss")
    return value


def _validate_gpus(value: str) -> str:
    if value and not _GPUS.fullmatch(value):
        raise ValueError("not a list of GPU indices")
    return value


def _validate_memory(value: str) -> str:
    if value and not (_MEMORY.fullmatch(value) and (value == "growth" or float(value) > 0)):
        raise ValueError("not an amount of memory")
    return value


def _normalize_noise(value: object) -> object:
    """Return noise in its canonical text, or an invalid value unchanged, which the validator rejects."""
    try:
        if value is None:
            return ""
        if isinstance(value, Mapping):
            return noises.from_mapping(value).text
        return noises.parse(value).text if isinstance(value, str) else value
    except ValueError:
        return value


def _validate_noise(value: str) -> str:
    noises.parse(value)
    return value


def _validate_no_credentials(value: str) -> str:
    # Every artifact contains all fields.
    if has_credentials(value):
        raise ValueError("credentials in a URI")
    return value


def _validate_data(value: str) -> str:
    if value not in (*GENERATED, MEMORY) and not is_function_name(value) and not extension_of(value):
        raise ValueError("unknown data")
    try:
        place = parse_bucket_uri(value)
    except ConfigError:
        raise ValueError("not a bucket URI") from None
    if place and not place.folder:
        raise ValueError("a bucket without a path")
    return value


def _validate_model(value: str) -> str:
    if "#" in value:
        embedded_content(value)
    elif is_file(value):
        _validate_no_credentials(value)
    elif value not in MODELS and not is_function_name(value):
        raise ValueError("unknown model")
    return value


def _validate_simulator(value: object, validate_own: ValidatorFunctionWrapHandler) -> object:
    if isinstance(value, str) and value != "auto":
        # Imports a plug-in, so that its errors are reported when the experiment is read.
        registry.costs_of(value)
        return value
    return validate_own(value)


Integer = Annotated[int, BeforeValidator(_integer)]
Model = Annotated[
    str,
    AfterValidator(_validate_model),
    AllowedValues(
        f"one of {', '.join(MODELS)}, or a custom circuit: package.module:function, or the path or bucket URI of an "
        f"OpenQASM file ({QASM}), a Cirq file ({JSON}) or a Qiskit file ({QPY})"
    ),
]
Data = Annotated[
    str,
    AfterValidator(_validate_data),
    AllowedValues(
        f"one of {', '.join(GENERATED)}, or a custom Hamiltonian: package.module:function, or the path or bucket URI "
        f"({', '.join(f'{scheme}://' for scheme in SCHEMES)}) of a {', '.join(EXTENSIONS[:-1])} or "
        f"{EXTENSIONS[-1]} file, without credentials"
    ),
]
Folder = Annotated[
    str,
    BeforeValidator(_integer_as_text),
    AfterValidator(_validate_no_credentials),
    AllowedValues("a path (quoted if it looks like a number) or a bucket URI without credentials, or empty for none"),
]
BatchRange = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_validate_batch_range),
    AllowedValues("first-last with 1 <= first <= last, such as 10-20, or empty for none"),
]
TargetLoss = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_validate_target_loss),
    AllowedValues("a loss such as 0.2, a distance from the MSE lower bound such as floor+0.01, or empty for none"),
]
Gpus = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_validate_gpus),
    AllowedValues("indices such as 0 or 0,1, or empty for all"),
]
GpuMemory = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_validate_memory),
    AllowedValues("growth, a number of GiB greater than 0, or empty for all memory"),
]
Observables = Annotated[
    str,
    AllowedValues(
        "real sums of products of X, Y or Z on qubits, separated by commas, such as Z0*Z1, 0.5*X2 - Y3, or empty for "
        "the readouts of the circuit"
    ),
]
InputNames = Annotated[
    str, AllowedValues("different names of the circuit's parameters, separated by commas, such as x0,x1, or empty")
]
FeatureMap = Annotated[
    str,
    AllowedValues(
        "z, zz or iqp, with repetitions and entanglement linear, ring or full, such as zz,repetitions=1, or empty"
    ),
]
# A mapping in a file, text everywhere else.
NoiseText = Annotated[
    str, BeforeValidator(_normalize_noise), AfterValidator(_validate_noise), AllowedValues(noises.ALLOWED)
]
# Written as 1 and 0: pipelines and tuners carry numbers, and job names depend on the written form.
Switch = Annotated[
    bool,
    BeforeValidator(_as_switch),
    PlainSerializer(int, return_type=int),
    AllowedValues("an integer, at least 0 and at most 1"),
]

Precision = Literal["complex64", "complex128"]
ExportCheckpoint = Literal["last", "best", "both"]
LogEvery = Literal["epoch", "batch"]
LearningRateSchedule = Literal["cosine", "constant"]
ReadoutNormalization = Literal["centered", "none"]
Initialization = Literal["normal", "uniform"]
Gradient = Literal["adjoint", "parameter_shift"]
FeatureScaling = Literal["minmax", "none"]
Reduction = Literal["auto", "hierarchical_copy", "one_device", "nccl"]
Communication = Literal["auto", "ring", "nccl"]
Encoding = Literal["excitation", "rx", "ry", "rz", "dense", "amplitude", "circuit"]
Optimizer = Literal["adam", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "nesterov"]
Loss = Literal["mse", "cross_entropy"]
Head = Literal["auto", "expectation", "probabilities", "softmax", "dense"]
Activation = Literal["linear", "relu", "elu", "selu", "gelu", "tanh", "sigmoid", "softplus"]
if TYPE_CHECKING:
    # Their values are registered elsewhere.
    Simulator: TypeAlias = str
    Strategy: TypeAlias = str
else:
    Simulator = Annotated[Literal[("auto", *registry.SIMULATORS)], WrapValidator(_validate_simulator)]
    Strategy = Literal[tuple(STRATEGIES)]


Mark = TypeVar("Mark", bound=enum.Enum)


def metadata_of(name: str, field: FieldInfo, kind: type[Mark]) -> Mark:
    """Return the mark of a type in the annotation of a field.

    Args:
        name: Name of the field, for messages.
        field: Field with exactly one mark of the type.
        kind: `Affects` or `Purpose`.

    Raises:
        TypeError: If the field has no such mark, or several.
    """
    found = [mark for mark in field.metadata if isinstance(mark, kind)]
    if len(found) != 1:
        raise TypeError(f"{name}: a field must have exactly one {kind.__name__}. Given: {found}")
    return found[0]


def field_type(field: FieldInfo) -> type[int | float | str]:
    """Return the type in which a field is written: int, float or str."""
    if get_origin(field.annotation) is Literal:
        return str
    if is_switch(field):
        return int
    kinds: tuple[type[int | float | str], ...] = (int, float, str)
    for kind in kinds:
        if field.annotation is kind:
            return kind
    raise TypeError(f"fields are int, float or str. Given: {field.annotation}")


def is_switch(field: FieldInfo) -> bool:
    """Return whether a field is written as 1 for true and 0 for false."""
    return field.annotation is bool


def written_default(field: FieldInfo) -> int | float | str:
    """Return the default of a field as it is written."""
    default: int | float | str = field.default
    return int(default) if is_switch(field) else default


def describe_allowed(field: FieldInfo) -> str:
    """Return a description of the values that a field accepts, derived from its annotation."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    bounds = []
    for mark in field.metadata:
        match mark:
            case AllowedValues():
                return mark.text
            case annotated_types.Ge():
                bounds.append(f"at least {mark.ge}")
            case annotated_types.Gt():
                bounds.append(f"greater than {mark.gt}")
            case annotated_types.Le():
                bounds.append(f"at most {mark.le}")
            case annotated_types.Lt():
                bounds.append(f"less than {mark.lt}")
    kind = "an integer" if field_type(field) is int else "a finite number"
    return ", ".join([kind, " and ".join(bounds)]) if bounds else kind


def describe(field: FieldInfo) -> str:
    """Return the description of a field with its allowed values, for help texts and pipeline parameters."""
    text = describe_allowed(field)
    return f"{field.description} {text[0].upper()}{text[1:]}."
