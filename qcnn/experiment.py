"""The experiment, described once: every word, its range and its default. Imports no TensorFlow."""

import dataclasses
import enum
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args, get_origin

import annotated_types
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from qcnn import defaults, requirements
from qcnn.circuits import noise as noises
from qcnn.circuits.formats.embedded import JSON, MAX_QUBITS, MODELS, QASM, held, is_file, shown
from qcnn.circuits.noise import NOISELESS, Noise
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.errors import ConfigError, has_credentials
from qcnn.requirements import STRATEGIES, with_word
from qcnn.simulators import registry
from qcnn.simulators.interface import Limits
from qcnn.simulators.registry import NOISE_MAX_QUBITS
from qcnn.storage.store import SCHEMES, in_bucket
from qcnn.tables import ENDINGS, ending_of

# Of a trajectory, an amplitude in complex128 and what is made of it at a time.
TRAJECTORY_BYTES = 16 * 4
# What is diagonalized: a matrix of 2^15 rows.
CLUSTER_ISING_MAX_QUBITS = 15
# Half a GiB while they are drawn and split.
MAX_SAMPLES = 10_000_000
# Features or amplitudes of all samples, float32: a quarter of a GiB, and a few times that while they are read.
_MAX_VALUES = 2**26
# Readouts of a batch, of which `window` holds some eight numbers each: 2 GiB.
_MAX_BATCH_QUBITS = 2**26
# Weights of the hidden layer, of which training holds four numbers each: half a GiB.
_MAX_WEIGHTS = 2**24
_CUSTOM_MODEL = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Samples that are drawn from the seed, and ground states that are computed; all other data are a file's rows.
EXCITATIONS, CLUSTER_ISING = GENERATED = ("excitations", "cluster_ising")
_BATCH_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_TARGET = re.compile(r"(floor\+)?((?:[0-9]{1,9}\.?|[0-9]{0,9}\.[0-9]{1,20})(?:e-?[0-9]{1,2})?)")
_GPUS = re.compile(r"[0-9]{1,2}(,[0-9]{1,2})*")
_MEMORY = re.compile(r"growth|(?:[0-9]{1,4}(?:\.[0-9]{1,6})?)")
# The most in size that a number may be whose text is taken.
_MOST_AS_TEXT = 1e9
_RULE = "0 takes a number with which the size trains"


def _whole(value: object) -> object:
    """Return 8 for 8.0: pipeline structs carry every number as a double."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_switch(value: object) -> object:
    """Return True for 1 and False for 0."""
    return value == 1 if isinstance(value, int | float) and value in (0, 1) else value


def _number_as_text(value: object) -> object:
    """Return the text of a number: a file and Python have 0.2 where a flag has "0.2". Nothing is the empty text."""
    value = _whole(value)
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_AS_TEXT
    return repr(value) if is_number else value


def _whole_as_text(value: object) -> object:
    """Return the text of a whole number; of another one the text is not known: 1.10 is 1.1."""
    return value if isinstance(value, float) else _number_as_text(value)


class Affects(enum.Flag):
    """What depends on a field.

    `NUMBERS`: what is trained, so a training goes on only with the same value. `PROGRAM`: what is compiled, so trials
    of a study share a program only with the same value. `ROWS`: how the rows of a file are read. `DISTRIBUTION`:
    processes and machines. `MACHINE`: what of a machine has to be set before a process computes anything. `RUN`: only
    how a run goes on.
    """

    NUMBERS = enum.auto()
    PROGRAM = enum.auto()
    ROWS = enum.auto()
    DISTRIBUTION = enum.auto()
    MACHINE = enum.auto()
    RUN = enum.auto()


@dataclasses.dataclass(frozen=True)
class Allowed:
    """Says in words what a text field accepts."""

    text: str


def _batch_range(value: str) -> str:
    bounds = _BATCH_RANGE.fullmatch(value)
    if value and not (bounds and 1 <= int(bounds[1]) <= int(bounds[2])):
        raise ValueError("no range of batches")
    return value


def _target(value: str) -> str:
    if value and not _TARGET.fullmatch(value):
        raise ValueError("no loss to stop at")
    return value


def _gpus(value: str) -> str:
    if value and not _GPUS.fullmatch(value):
        raise ValueError("no numbers of GPUs")
    return value


def _memory(value: str) -> str:
    if value and not (_MEMORY.fullmatch(value) and (value == "growth" or float(value) > 0)):
        raise ValueError("no memory")
    return value


def _noise(value: object) -> object:
    """Return noise in its one form; what is none stays as it is, to be refused."""
    try:
        if value is None:
            return ""
        if isinstance(value, Mapping):
            return noises.from_mapping(value).text
        return noises.parse(value).text if isinstance(value, str) else value
    except ValueError:
        return value


def _known_noise(value: str) -> str:
    noises.parse(value)
    return value


def _without_credentials(value: str) -> str:
    # Every artifact holds all words.
    if has_credentials(value):
        raise ValueError("credentials in an address")
    return value


def _known_data(value: str) -> str:
    if value not in GENERATED and not ending_of(value):
        raise ValueError("unknown data")
    try:
        place = in_bucket(value)
    except ConfigError:
        raise ValueError("no address in a bucket") from None
    if place and not place.folder:
        raise ValueError("a bucket alone")
    return value


def _known_model(value: str) -> str:
    if "#" in value:
        held(value)
    elif is_file(value):
        _without_credentials(value)
    elif value not in MODELS and not _CUSTOM_MODEL.fullmatch(value):
        raise ValueError("unknown model")
    return value


Integer = Annotated[int, BeforeValidator(_whole)]
Model = Annotated[
    str,
    AfterValidator(_known_model),
    Allowed(
        f"one of {', '.join(MODELS)}, or your own as package.module:function, or as a file of OpenQASM ({QASM}) or of "
        f"cirq ({JSON}), here or in a bucket"
    ),
]
Data = Annotated[
    str,
    AfterValidator(_known_data),
    Allowed(
        f"{' or '.join(GENERATED)}, or a file's path or address in a bucket ("
        f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}) without a name or password in it, which ends in "
        f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
    ),
]
Folder = Annotated[
    str,
    BeforeValidator(_whole_as_text),
    AfterValidator(_without_credentials),
    Allowed(
        "a path (in quotation marks where it reads as a number) or an address in a bucket without a name or password "
        "in it, or empty for none"
    ),
]
BatchRange = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_batch_range),
    Allowed("first-last with 1 <= first <= last, such as 10-20, or empty for none"),
]

Target = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_target),
    Allowed("a loss such as 0.2, a distance from the model's floor such as floor+0.01, or empty for never"),
]

Gpus = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_gpus),
    Allowed("numbers such as 0 or 0,1, or empty for all"),
]
GpuMemory = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_memory),
    Allowed("growth, a number of GiB greater than 0, or empty for all of it"),
]
# A mapping in a file, text everywhere else.
NoiseText = Annotated[str, BeforeValidator(_noise), AfterValidator(_known_noise), Allowed(noises.ALLOWED)]
# Written as 1 and 0: pipelines and tuners carry numbers, and what is written names jobs.
Switch = Annotated[
    bool,
    BeforeValidator(_as_switch),
    PlainSerializer(int, return_type=int),
    Allowed("an integer, at least 0 and at most 1"),
]


Precision = Literal["complex64", "complex128"]
Weights = Literal["last", "best", "both"]
LogEvery = Literal["epoch", "batch"]
Schedule = Literal["cosine", "constant"]
Readouts = Literal["centred", "plain"]
Initialization = Literal["normal", "uniform"]
Gradient = Literal["adjoint", "parameter_shift"]
Scaling = Literal["range", "none"]
Reduction = Literal["auto", "hierarchical_copy", "one_device", "nccl"]
Communication = Literal["auto", "ring", "nccl"]
Encoding = Literal["excitation", "rx", "ry", "rz"]
Optimizer = Literal["adam", "sgd", "rmsprop", "adagrad", "adamax", "nadam"]
Activation = Literal["linear", "relu", "elu", "selu", "gelu", "tanh", "sigmoid", "softplus"]
if TYPE_CHECKING:
    # Types whose values are declared elsewhere.
    Simulator: TypeAlias = str
    Strategy: TypeAlias = str
else:
    Simulator = Literal[("auto", *registry.SIMULATORS)]
    Strategy = Literal[tuple(STRATEGIES)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Options(_Frozen):
    """What few experiments change; one struct in the pipeline."""

    train_fraction: Annotated[float, Affects.NUMBERS | Affects.ROWS] = Field(
        0.7, gt=0, lt=1, description="Share of the samples used for training."
    )
    validation_fraction: Annotated[float, Affects.NUMBERS | Affects.ROWS] = Field(
        0.15, gt=0, lt=1, description="Share used for the validation loss; what both shares leave is the test split."
    )
    memory_gib: Annotated[float, Affects.PROGRAM] = Field(
        2.0,
        gt=0,
        le=2**20,
        description="Memory that a worker's states may take, in GiB; batches that need more are split.",
    )
    precision: Annotated[Precision, Affects.PROGRAM] = Field(
        "complex64", description="Amplitudes of simulator statevector above 11 qubits; all else takes complex128."
    )
    checkpoint_seconds: Annotated[float, Affects.RUN] = Field(
        0.0, ge=0, description="Least time between two checkpoints, in seconds; 0 saves after every epoch."
    )
    patience: Annotated[Integer, Affects.RUN] = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Epochs without a lower validation loss after which training stops; 0 never stops it.",
    )
    stop_at: Annotated[Target, Affects.RUN] = Field(
        "", description="Validation loss at which training stops, once it is reached."
    )
    weights: Annotated[Weights, Affects.NUMBERS] = Field(
        "last", description="Weights to export and evaluate, best by validation loss; both evaluates the best."
    )
    continue_from: Annotated[Folder, Affects.RUN] = Field(
        "", description="Training folder of the same experiment whose checkpoints are continued."
    )
    restarts: Annotated[Integer, Affects.RUN] = Field(
        3, ge=0, le=1000, description="How often workers that were lost are started again."
    )
    hang_seconds: Annotated[float, Affects.RUN] = Field(
        60.0,
        gt=0,
        description="Time without a sign of life after which a worker counts as lost, and without a written file after "
        "which the training waits for its bucket, in seconds.",
    )
    log_every: Annotated[LogEvery, Affects.RUN] = Field(
        "epoch", description="How often TensorBoard gets loss, accuracy and gradient norm of training."
    )
    profile_batches: Annotated[BatchRange, Affects.RUN] = Field(
        "10-20", description="Batches that the chief profiles, counted from 1 over all epochs."
    )
    schedule: Annotated[Schedule, Affects.NUMBERS] = Field(
        "cosine", description="How the learning rate goes on once it is reached: falling to zero, or as it is."
    )
    warmup: Annotated[float, Affects.NUMBERS] = Field(
        0.05, ge=0, lt=1, description="Share of the updates over which the learning rate rises to its value."
    )
    readouts: Annotated[Readouts, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "centred",
        description="What the dense layers take: readouts less their values without an excitation, or as they are.",
    )
    initialization: Annotated[Initialization, Affects.NUMBERS] = Field(
        "normal",
        description="How the quantum parameters begin, in turns of pi: normal, or uniform in [0, 2 pi), as published.",
    )
    initialization_scale: Annotated[float, Affects.NUMBERS] = Field(
        0.5, ge=0, le=100, description="Standard deviation of initialization normal; a small one begins near identity."
    )
    starts: Annotated[Integer, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=1000,
        description="Initial weights that are tried for a tenth of the epochs each; the one with the lowest validation "
        f"loss goes on. {_RULE}: several of deep.",
    )
    shots: Annotated[Integer, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Measurements that every readout is estimated from; 0 computes expectation values.",
    )
    noise: Annotated[NoiseText, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "",
        description="What acts on the qubits of every gate after it, and on readouts; training is under it up to "
        f"{NOISE_MAX_QUBITS} qubits, evaluation always.",
    )
    trajectories: Annotated[Integer, Affects.NUMBERS] = Field(
        100,
        ge=2,
        le=1_000_000,
        description=f"Random trajectories of a test sample, from which noise is estimated above {NOISE_MAX_QUBITS} "
        "qubits.",
    )
    gradient: Annotated[Gradient, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "adjoint",
        description="How the quantum parameters' gradient is computed: from the states, or from shifted circuits, as "
        "hardware would; with shots those are sampled too.",
    )
    scaling: Annotated[Scaling, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "range",
        description="How a feature becomes an angle: its least value in the training split 0 and its greatest pi, or "
        "as radians.",
    )
    samples: Annotated[Integer, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        0, ge=0, le=MAX_SAMPLES, description="Rows of the file that count, the first ones; 0 takes all."
    )
    chief: Annotated[Switch, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        False, description=f"1 makes one of the training processes of strategy {with_word('chief')} the chief."
    )
    ps: Annotated[Integer, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        0, ge=0, le=64, description=f"Parameter servers of strategy {with_word('ps')}; 0 takes one."
    )
    evaluator: Annotated[Switch, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        False, description="1 starts a process beside the training that measures every checkpoint and keeps the best."
    )
    devices: Annotated[Integer, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        0,
        ge=0,
        le=64,
        description=f"Devices that strategies {with_word('devices')} train on: GPUs, or where there are none, "
        "parts of the processor; 0 takes all GPUs, or one processor.",
    )
    reduction: Annotated[Reduction, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "auto",
        description=f"How strategy {with_word('reduction')} adds up over its devices; auto takes nccl on GPUs, else "
        "one_device.",
    )
    communication: Annotated[Communication, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "auto", description=f"How strategy {with_word('communication')} adds up over its processes."
    )
    communication_timeout: Annotated[float, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        0.0,
        ge=0,
        description=f"Time after which strategy {with_word('communication_timeout')} gives up a sum over its "
        "processes, in seconds; 0 never.",
    )
    inter_threads: Annotated[Integer, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        0, ge=0, le=1024, description="Operations that a process runs at once; 0 leaves it to TensorFlow."
    )
    intra_threads: Annotated[Integer, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        0, ge=0, le=1024, description="Threads that an operation of a process may use; 0 leaves it to TensorFlow."
    )
    placement_log: Annotated[Switch, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        False, description="1 prints on which device every operation is placed."
    )
    visible_gpus: Annotated[Gpus, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        "", description="GPUs that each process sees, such as one for each of several trials."
    )
    gpu_memory: Annotated[GpuMemory, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        "", description="Memory that a process takes of each GPU it sees."
    )

    @property
    def profiled(self) -> range:
        """The batches to profile, counted from 0; empty for none."""
        bounds = _BATCH_RANGE.fullmatch(self.profile_batches)
        return range(int(bounds[1]) - 1, int(bounds[2])) if bounds else range(0)

    @property
    def target(self) -> tuple[bool, float] | None:
        """Whether `stop_at` is a distance from the floor, and its number; None for never."""
        found = _TARGET.fullmatch(self.stop_at)
        return (bool(found[1]), float(found[2])) if found else None


# Words of which 0 takes what a rule says; so does the option starts.
RULES = ("rounds", "epochs", "batch_size")


class ExperimentConfig(_Frozen):
    """One experiment; the fields are the CLI's flags and the pipeline's parameters."""

    qubits: Annotated[Integer, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        8, ge=4, le=MAX_QUBITS, description="Qubits on the ring."
    )
    rounds: Annotated[Integer, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=1_000_000,
        description=f"Excitation rounds: rounds x qubits samples are generated, at most {MAX_SAMPLES}; as many ground "
        f"states. {_RULE}.",
    )
    data: Annotated[Data, Affects.PROGRAM | Affects.ROWS] = Field(
        EXCITATIONS,
        description="Where samples come from: excitations drawn from the seed, ground states of the cluster-Ising "
        "Hamiltonian, or the rows of a file.",
    )
    encoding: Annotated[Encoding, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "excitation",
        description="How a row becomes a state: qubit and angle of an excitation, or features that each turn a qubit.",
    )
    seed: Annotated[Integer, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=2**32 - 1,
        description="Seed of the data, the split, the order of samples and the weights.",
    )
    model: Annotated[Model, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "hybrid", description="Circuit and head of the network."
    )
    simulator: Annotated[Simulator, Affects.PROGRAM] = Field(
        "auto",
        description="What computes the expectation values; auto takes the cheapest that is exact and fits. "
        + registry.described(),
    )
    optimizer: Annotated[Optimizer, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "adam", description="Optimizer, with Keras' defaults but for the learning rate."
    )
    hidden_units: Annotated[Integer, Affects.NUMBERS | Affects.PROGRAM] = Field(
        8,
        ge=1,
        le=4096,
        description=f"Units of the hidden dense layer (several readouts); times qubits at most {_MAX_WEIGHTS}.",
    )
    hidden_activation: Annotated[Activation, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "linear", description="Activation of the hidden dense layer."
    )
    strategy: Annotated[Strategy, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "multi_worker", description="TensorFlow's distribution strategy."
    )
    workers: Annotated[Integer, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        2, ge=1, le=512, description=f"Training processes, with strategy {with_word('chief')} the chief among them."
    )
    epochs: Annotated[Integer, Affects.RUN] = Field(
        0, ge=0, le=1_000_000, description=f"Passes over the training samples. {_RULE}."
    )
    batch_size: Annotated[Integer, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0,
        ge=0,
        le=MAX_SAMPLES,
        description="Samples a step, over all workers together, at least one for each; "
        f"times qubits at most {_MAX_BATCH_QUBITS}. {_RULE}.",
    )
    learning_rate: Annotated[float, Affects.NUMBERS] = Field(
        0.05, gt=0, description="Learning rate of the optimizer, at its highest."
    )
    options: Options = Field(default_factory=Options, description="Everything else.")

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, values: Any, handler: ModelWrapValidatorHandler["ExperimentConfig"]) -> "ExperimentConfig":
        """Take what the rules say where a word is 0, and refuse combinations that cannot run."""
        config = handler(values)
        config._check_data()
        if 0 in (*(getattr(config, name) for name in RULES), config.options.starts):
            config = handler(config._by_rules())
        config._check()
        return config

    def _by_rules(self) -> dict[str, Any]:
        """Return all words, those that are 0 as `qcnn.defaults` says."""
        model, words = self.model, self.model_dump()
        words["options"]["starts"] = self.options.starts or defaults.starts(model)
        if not self.is_file:
            if self.data == CLUSTER_ISING:
                least = defaults.rounds_of_ground_states(self.qubits)
            else:
                least = defaults.rounds(model, self.qubits, self.options.train_fraction, MAX_SAMPLES)
            words["rounds"] = self.rounds or least
        if self.is_open:
            return words
        count = self.options.samples if self.is_file else words["rounds"] * self.qubits
        samples = max(1, round(self.options.train_fraction * count))
        words["batch_size"] = self.batch_size or defaults.batch_size(samples, self.workers)
        words["epochs"] = self.epochs or defaults.epochs(model, samples, words["batch_size"])
        return words

    def _check(self) -> None:
        requirements.check(self._words, _DEFAULTS)
        if self.batch_size < self.shares and not (self.is_open and self.batch_size == 0):
            word = "devices" if STRATEGIES[self.strategy].devices else "workers"
            raise ConfigError(
                f"batch_size: must be at least {word} ({self.shares}), so that each has a sample. "
                f"Given: {self.batch_size}"
            )
        if reason := registry.refusal(
            self.simulator,
            self.qubits,
            noise=bool(self.noise_in_training),
            shifts=self.options.gradient != "adjoint",
            states=f"with data {self.data}, whose samples are states" if self.preparation.kind == "state" else "",
        ):
            raise ConfigError(reason)
        self._check_noise()
        for name, most in (
            ("rounds", self.most_samples),
            ("hidden_units", _MAX_WEIGHTS),
            ("batch_size", _MAX_BATCH_QUBITS),
        ):
            value = getattr(self, name)
            if value * self.qubits > most:
                raise ConfigError(
                    f"{name}: {name} x qubits must be at most {most}. Given: {value} with {self.qubits} qubits"
                )
        train, validation = self.options.train_fraction, self.options.validation_fraction
        if train + validation >= 1:
            raise ConfigError(
                "validation_fraction: train_fraction + validation_fraction must be less than 1, so that a test split "
                f"is left. Given: {train} + {validation}"
            )
        self._check_target()
        counts = self.split_counts
        if min(dataclasses.astuple(counts)) < 1 and not self.is_open:
            word, given, number = "rounds", "rounds x qubits samples", f"{self.rounds} rounds of {self.qubits} qubits"
            if self.is_file:
                word, given, number = "data", "the file's rows", f"{self.options.samples} rows"
            raise ConfigError(
                f"{word}: {given} must leave at least one each for training, validation and test. "
                f"Given: {number}, split {counts.train} / {counts.validation} / {counts.test}"
            )

    def _check_noise(self) -> None:
        if not self.noise_by_trajectories:
            return
        if self.options.shots:
            raise ConfigError(
                f"shots: must be 0 with noise above {NOISE_MAX_QUBITS} qubits, where trajectories estimate the "
                f"readouts. Given: {self.options.shots}"
            )
        needed = TRAJECTORY_BYTES * 2.0**self.qubits / 2**30
        if needed > self.options.memory_gib:
            raise ConfigError(
                f"noise: a trajectory of {self.qubits} qubits needs {needed:.3g} GiB; memory_gib gives it "
                f"{self.options.memory_gib}. Given: {self.options.noise}"
            )

    def _check_data(self) -> None:
        """Refuse words about data of another kind than these."""
        options, is_encoded = self.options, self.encoding != "excitation"
        given = f"with data {self.data}"
        if is_encoded and not self.is_file:
            raise ConfigError(f"encoding: must be excitation unless data is a file. Given: {self.encoding} {given}")
        if self.rounds and self.is_file:
            raise ConfigError(f"rounds: must be 0 where data is a file. Given: {self.rounds} {given}")
        if options.samples and not self.is_file:
            raise ConfigError(
                f"samples: must be 0 unless data is a file; rounds make others. Given: {options.samples} {given}"
            )
        if options.scaling != "range" and not is_encoded:
            raise ConfigError(f"scaling: must be range unless encoding is rx, ry or rz. Given: {options.scaling}")
        if self.data == CLUSTER_ISING and self.qubits > CLUSTER_ISING_MAX_QUBITS:
            raise ConfigError(
                f"qubits: must be at most {CLUSTER_ISING_MAX_QUBITS} {given}, which is diagonalized. "
                f"Given: {self.qubits}"
            )
        if options.samples > self.most_samples:
            raise ConfigError(
                f"samples: must be at most {self.most_samples} with encoding {self.encoding} on {self.qubits} qubits. "
                f"Given: {options.samples}"
            )

    @property
    def is_file(self) -> bool:
        """Whether samples are the rows of a file."""
        return self.data not in GENERATED

    @property
    def most_samples(self) -> int:
        """How many samples there may be, whose features or amplitudes are all held."""
        if self.data == CLUSTER_ISING:
            return _MAX_VALUES >> self.qubits
        return MAX_SAMPLES if self.encoding == "excitation" else min(MAX_SAMPLES, _MAX_VALUES // self.qubits)

    @property
    def is_open(self) -> bool:
        """Whether the file that samples come from has yet to be read, before words that depend on it are known."""
        return self.is_file and not self.options.samples

    def _check_target(self) -> None:
        if self.options.target and self.options.target[0] and self.data != EXCITATIONS:
            raise ConfigError(
                f"stop_at: a floor is known of data {EXCITATIONS} alone; give a loss such as 0.2. "
                f"Given: {self.options.stop_at} with data {self.data}"
            )
        if self.options.target and self.options.target[0]:
            # NumPy is not needed for anything else here.
            from qcnn.circuits.error_bound import floor_of

            if floor_of(self.model, self.hidden_activation) is None:
                raise ConfigError(
                    f"stop_at: no floor is known of model {shown(self.model)} with hidden_activation "
                    f"{self.hidden_activation}; give a loss such as 0.2. Given: {self.options.stop_at}"
                )

    @property
    def split_counts(self) -> "SplitCounts":
        """Samples in each split; train and validation are rounded, the test split is the rest."""
        samples = self.options.samples if self.is_file else self.rounds * self.qubits
        train = round(self.options.train_fraction * samples)
        validation = round(self.options.validation_fraction * samples)
        return SplitCounts(train, validation, samples - train - validation)

    @property
    def preparation(self) -> Preparation:
        """How a sample becomes a state; a feature more than a file has turns its qubit by nothing."""
        if self.data == CLUSTER_ISING:
            return Preparation("state")
        return Preparation(self.encoding, self.qubits) if self.encoding != "excitation" else EXCITATION

    @property
    def noise_in_training(self) -> Noise:
        """The noise that the network is trained, exported and served with: none where it cannot be exact."""
        return NOISELESS if self.noise_by_trajectories else noises.parse(self.options.noise)

    @property
    def noise_by_trajectories(self) -> Noise:
        """The noise that the evaluation alone estimates, from trajectories."""
        return noises.parse(self.options.noise) if self.qubits > NOISE_MAX_QUBITS else NOISELESS

    @property
    def _words(self) -> dict[str, Any]:
        """All words, those of the options beside the others."""
        words = self.model_dump()
        return {**words.pop("options"), **words}

    @property
    def replicas(self) -> dict[str, int]:
        """How many processes each role has: chief, worker, ps, evaluator."""
        return requirements.replicas(self._words)

    @property
    def shares(self) -> int:
        """How many replicas share a batch."""
        return requirements.shares(self._words)

    @property
    def limits(self) -> Limits:
        """What a worker's simulator has to keep to."""
        found = Limits(
            memory=self.options.memory_gib * 2**30,
            batch=self.batch_size,
            real_bytes={"complex64": 4, "complex128": 8}[self.options.precision],
            replicas=self.shares,
            own_operations=STRATEGIES[self.strategy].own_operations,
        )
        # Sampled readouts are shared by sample: a worker's share is then a step of its own.
        return dataclasses.replace(found, batch=found.share, replicas=1) if self.options.shots else found

    @property
    def gpu_words(self) -> dict[str, str]:
        """The words that a process without a GPU cannot follow, with their values."""
        return requirements.gpu_words(self._words)

    def to_json(self) -> str:
        """Return the whole experiment as one line of JSON, as passed between steps; names of jobs depend on it."""
        return json.dumps(self.model_dump())


@dataclasses.dataclass(frozen=True)
class SplitCounts:
    """How many samples each split holds."""

    train: int
    validation: int
    test: int


# The typed parameters of the pipeline; `options` carries the rest.
EXPERIMENT_FIELDS: dict[str, FieldInfo] = {
    name: field for name, field in ExperimentConfig.model_fields.items() if name != "options"
}
OPTION_FIELDS: dict[str, FieldInfo] = dict(Options.model_fields)
# All words, wherever they stand.
WORDS = {**EXPERIMENT_FIELDS, **OPTION_FIELDS}
_DEFAULTS = {name: field.default for name, field in WORDS.items()}


def affecting(what: Affects) -> tuple[str, ...]:
    """Return the words on which something depends."""
    return tuple(name for name, affects in _AFFECTS.items() if what in affects)


def _affects(name: str, field: FieldInfo) -> Affects:
    found = [mark for mark in field.metadata if isinstance(mark, Affects)]
    if len(found) != 1:
        raise TypeError(f"{name}: a field must say what it affects. Given: {found}")
    return found[0]


_AFFECTS = {name: _affects(name, field) for name, field in WORDS.items()}


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
    """Whether a field is written as 1 for yes and 0 for no."""
    return field.annotation is bool


def written_default(field: FieldInfo) -> int | float | str:
    """Return the default of a field as it is written."""
    default: int | float | str = field.default
    return int(default) if is_switch(field) else default


def allowed(field: FieldInfo) -> str:
    """Say in words what a field accepts, from its own annotation."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    bounds = []
    for mark in field.metadata:
        match mark:
            case Allowed():
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
    """Return the description of a field with what it accepts, for help texts and pipeline parameters."""
    text = allowed(field)
    return f"{field.description} {text[0].upper()}{text[1:]}."
