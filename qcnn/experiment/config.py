"""Schema of an experiment: every field with its range, default and description. Imports no TensorFlow."""

import dataclasses
import json
import math
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from qcnn.circuits import noise as noises
from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.circuits.chains import MAX_QUBITS as MAX_DIAGONALIZED_QUBITS
from qcnn.circuits.formats.embedded import (
    MAX_QUBITS,
    MIN_QUBITS,
    MODELS,
    embedded_inputs,
    is_embedded,
    model_display_name,
    parse_input_names,
)
from qcnn.circuits.functions import is_function_name
from qcnn.circuits.noise import NOISELESS, Noise
from qcnn.circuits.preparation import Preparation, preparation_of
from qcnn.errors import ConfigError
from qcnn.experiment import defaults, requirements
from qcnn.experiment.fields import (
    BATCH_RANGE,
    EXCITATIONS,
    GENERATED,
    MAX_CLASSES,
    TARGET_LOSS,
    Activation,
    Affects,
    BatchRange,
    Communication,
    Data,
    Encoding,
    ExportCheckpoint,
    FeatureMap,
    FeatureScaling,
    Folder,
    GpuMemory,
    Gpus,
    Gradient,
    Head,
    Initialization,
    InputNames,
    Integer,
    LearningRateSchedule,
    LogEvery,
    Loss,
    Model,
    NoiseText,
    Observables,
    Optimizer,
    Precision,
    Purpose,
    ReadoutNormalization,
    Reduction,
    Simulator,
    Strategy,
    Switch,
    TargetLoss,
    metadata_of,
)
from qcnn.experiment.requirements import STRATEGIES, strategies_with
from qcnn.simulators import registry
from qcnn.simulators.interface import REAL_BYTES, SimulatorLimits
from qcnn.simulators.registry import NOISE_MAX_QUBITS

# Bytes of an amplitude (complex128) of a trajectory and of its intermediate results.
TRAJECTORY_BYTES = 16 * 4
# Half a GiB during generation and splitting.
MAX_SAMPLES = 10_000_000
# Features or amplitudes of all samples, float32: a quarter of a GiB, and a few times that while they are read.
_MAX_VALUES = 2**26
# Readouts of a batch, of which `lightcone` stores about eight numbers each: 2 GiB.
_MAX_BATCH_QUBITS = 2**26
# Generated excitations have the labels -1 and +1. A custom Hamiltonian has two labels unless `classes` is set.
_GENERATED_CLASSES = 2
# Weights of the hidden layer, of which training stores four numbers each: half a GiB.
_MAX_WEIGHTS = 2**24
_AUTOMATIC = "0: automatic."
# Fields that results, and the names of jobs, contain only if they are used: earlier releases did not have them.
_WRITTEN_IF_USED = (
    *("loss", "head", "temperature", "classes", "momentum", "steps_per_epoch", "observables", "inputs", "feature_map"),
    "baseline",
)
# Fields that change a circuit, which are empty afterwards, see `formats.loading.with_embedded_circuit`.
CIRCUIT_FIELDS = ("observables", "inputs", "feature_map")


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Options(_FrozenModel):
    """Fields that few experiments change. The pipeline has them in one struct parameter."""

    train_fraction: Annotated[float, Purpose.DATA, Affects.NUMBERS | Affects.ROWS] = Field(
        0.7, gt=0, lt=1, description="Fraction of samples in the training split."
    )
    validation_fraction: Annotated[float, Purpose.DATA, Affects.NUMBERS | Affects.ROWS] = Field(
        0.15, gt=0, lt=1, description="Fraction of samples in the validation split. The rest is the test split."
    )
    simulator_memory_gib: Annotated[float, Purpose.SIMULATION, Affects.PROGRAM] = Field(
        2.0,
        gt=0,
        le=2**20,
        description="Memory limit for simulated states per worker, in GiB. Larger batches are chunked.",
    )
    precision: Annotated[Precision, Purpose.SIMULATION, Affects.PROGRAM] = Field(
        "complex64",
        description="Amplitude precision of statevector above 11 qubits, and of statevector_cpu except for excitations "
        "up to 11 qubits. All else uses complex128.",
    )
    checkpoint_seconds: Annotated[float, Purpose.FAULT_TOLERANCE, Affects.RUN] = Field(
        0.0,
        ge=0,
        description="Minimum seconds between checkpoints. 0: automatic, so that saving takes at most 5 % of the time.",
    )
    patience: Annotated[Integer, Purpose.OPTIMIZATION, Affects.LENGTH] = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Epochs without improvement in validation loss before training stops. 0: disabled.",
    )
    target_val_loss: Annotated[TargetLoss, Purpose.OPTIMIZATION, Affects.LENGTH] = Field(
        "", description="Validation loss at which training stops."
    )
    export_checkpoint: Annotated[ExportCheckpoint, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        "last",
        description="Checkpoint to export and evaluate. best: by validation loss; both: export both, evaluate best.",
    )
    continue_from: Annotated[Folder, Purpose.FAULT_TOLERANCE, Affects.LENGTH] = Field(
        "", description="Training folder to resume from. It must contain the same experiment."
    )
    max_restarts: Annotated[Integer, Purpose.FAULT_TOLERANCE, Affects.RUN] = Field(
        3, ge=0, le=1000, description="Maximum number of restarts after retryable errors."
    )
    heartbeat_timeout_seconds: Annotated[float, Purpose.FAULT_TOLERANCE, Affects.RUN] = Field(
        60.0,
        gt=0,
        description="Seconds without a heartbeat after which a worker is restarted, at least 600 until its first one, "
        "and without a completed upload after which training waits for its bucket.",
    )
    log_every: Annotated[LogEvery, Purpose.MONITORING, Affects.RUN] = Field(
        "epoch", description="Frequency of the training scalars in TensorBoard."
    )
    profile_batches: Annotated[BatchRange, Purpose.MONITORING, Affects.RUN] = Field(
        "10-20", description="Batches to profile on the chief, counted from 1 over all epochs."
    )
    learning_rate_schedule: Annotated[LearningRateSchedule, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        "cosine", description="Learning rate after warmup: cosine decay to zero, or constant."
    )
    warmup_fraction: Annotated[float, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        0.05, ge=0, lt=1, description="Fraction of updates used for linear learning-rate warmup."
    )
    readout_normalization: Annotated[ReadoutNormalization, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "centered",
        description="Whether to subtract from each readout its value for the unexcited state (several readouts).",
    )
    initialization: Annotated[Initialization, Purpose.MODEL, Affects.NUMBERS] = Field(
        "normal",
        description="Distribution of the initial circuit parameters: normal, or uniform in [0, 2 pi) as published.",
    )
    initialization_scale: Annotated[float, Purpose.MODEL, Affects.NUMBERS] = Field(
        0.5, ge=0, le=100, description="Standard deviation of normal initialization, in units of pi."
    )
    num_initializations: Annotated[Integer, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=1000,
        description="Maximum number of random initializations to train for a tenth of the epochs each. The one of "
        f"lowest validation loss continues; the others take no more epochs than training itself. {_AUTOMATIC}",
    )
    shots: Annotated[Integer, Purpose.SIMULATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0, ge=0, le=1_000_000_000, description="Measurement shots per readout. 0: exact expectation values."
    )
    noise: Annotated[NoiseText, Purpose.SIMULATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "",
        description="Noise channels after every gate, and readout errors. Training includes them up to "
        f"{NOISE_MAX_QUBITS} qubits, evaluation always.",
    )
    trajectories: Annotated[Integer, Purpose.SIMULATION, Affects.NUMBERS] = Field(
        100,
        ge=2,
        le=1_000_000,
        description=f"Noise trajectories per test sample, above {NOISE_MAX_QUBITS} qubits.",
    )
    gradient: Annotated[Gradient, Purpose.SIMULATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "adjoint",
        description="Differentiation method of the circuit. parameter_shift evaluates shifted circuits as hardware "
        "does, with shots too.",
    )
    loss: Annotated[Loss, Purpose.OPTIMIZATION, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "mse", description="Loss. mse: labels are two classes or real numbers; cross_entropy: two or more classes."
    )
    head: Annotated[Head, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "auto",
        description="Head. expectation: one readout z is the prediction, or (1 + z) / 2 the probability of the second "
        "class; probabilities: class i is bit string i of the readouts; softmax: softmax of one readout per class; "
        "dense: dense layers over all readouts; auto: expectation if it is possible, else dense.",
    )
    temperature: Annotated[float, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        1.0,
        ge=0.01,
        le=100,
        description="Temperature of head probabilities, whose bit strings have the power 1/temperature of their "
        "probability, renormalized, and of head softmax, which divides the readouts by it.",
    )
    observables: Annotated[Observables, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "", description="Readouts of a circuit file, which replace its own: sums of Pauli strings, Z0*Z1, 0.5*X2 - Y3."
    )
    inputs: Annotated[InputNames, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "",
        description="Parameters of the circuit that are features instead, in the order of the columns, with encoding "
        "circuit.",
    )
    feature_map: Annotated[FeatureMap, Purpose.DATA, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "", description="Feature map before the circuit, with encoding circuit: z, zz or iqp, one feature per qubit."
    )
    classes: Annotated[Integer, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0, ge=0, le=MAX_CLASSES, description="Number of classes with loss cross_entropy. 0: those of the data."
    )
    momentum: Annotated[float, Purpose.OPTIMIZATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0.9, ge=0, lt=1, description="Momentum of the optimizer nesterov."
    )
    steps_per_epoch: Annotated[Integer, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        0, ge=0, le=MAX_SAMPLES, description="Batches of an epoch, the first of its order. 0: all."
    )
    feature_scaling: Annotated[FeatureScaling, Purpose.DATA, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "minmax",
        description="Feature scaling. minmax: maps the range of the training split to [0, pi]; none: reads radians.",
    )
    max_samples: Annotated[Integer, Purpose.DATA, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        0, ge=0, le=MAX_SAMPLES, description="Maximum number of rows to read from the data file. 0: all."
    )
    baseline: Annotated[Switch, Purpose.MONITORING, Affects.RUN] = Field(
        False,
        description="1: evaluation also fits a logistic regression, a support vector machine and a perceptron, and "
        "compares the network with them. Labels must be classes.",
    )
    chief: Annotated[Switch, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        False, description=f"1: make one of the workers a dedicated chief ({strategies_with('chief')})."
    )
    ps: Annotated[Integer, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        0, ge=0, le=64, description=f"Number of parameter servers ({strategies_with('ps')}). 0: one."
    )
    evaluator: Annotated[Switch, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        False, description="1: add an evaluator process that evaluates every checkpoint."
    )
    devices: Annotated[Integer, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        0,
        ge=0,
        le=64,
        description=f"Number of devices for {strategies_with('devices')}. 0: all GPUs, or one CPU device.",
    )
    reduction: Annotated[Reduction, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "auto",
        description=f"Cross-device reduction of {strategies_with('reduction')}. auto: nccl on GPUs, else one_device.",
    )
    communication: Annotated[Communication, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "auto", description=f"Collective implementation of {strategies_with('communication')}."
    )
    communication_timeout: Annotated[float, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        0.0,
        ge=0,
        description=f"Timeout of the collectives of {strategies_with('communication_timeout')}, in seconds. 0: none.",
    )
    inter_threads: Annotated[Integer, Purpose.DEVICES, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = (
        Field(0, ge=0, le=1024, description="TensorFlow inter_op parallelism threads. 0: TensorFlow's default.")
    )
    intra_threads: Annotated[Integer, Purpose.DEVICES, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = (
        Field(0, ge=0, le=1024, description="TensorFlow intra_op parallelism threads. 0: TensorFlow's default.")
    )
    placement_log: Annotated[Switch, Purpose.DEVICES, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        False, description="1: log TensorFlow's device placement."
    )
    visible_gpus: Annotated[Gpus, Purpose.DEVICES, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        "", description="Indices of the GPUs visible to each process."
    )
    gpu_memory: Annotated[GpuMemory, Purpose.DEVICES, Affects.PROGRAM | Affects.DISTRIBUTION | Affects.MACHINE] = Field(
        "", description="GPU memory limit per process."
    )

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        unused = {name for name in _WRITTEN_IF_USED if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in values.items() if name not in unused}

    @property
    def profiled(self) -> range:
        """Batches to profile, counted from 0. The range is empty without profiling."""
        bounds = BATCH_RANGE.fullmatch(self.profile_batches)
        return range(int(bounds[1]) - 1, int(bounds[2])) if bounds else range(0)

    @property
    def target(self) -> tuple[bool, float] | None:
        """`target_val_loss`: whether it is relative to the MSE lower bound, and its number, or None."""
        found = TARGET_LOSS.fullmatch(self.target_val_loss)
        return (bool(found[1]), float(found[2])) if found else None


# Fields for which 0 selects a value by `qcnn.experiment.defaults`; so does the option num_initializations.
AUTO_FIELDS = ("rounds", "epochs", "batch_size")


class ExperimentConfig(_FrozenModel):
    """One experiment. Its fields are the flags of the command and the parameters of the pipeline."""

    qubits: Annotated[Integer, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        8, ge=1, le=MAX_QUBITS, description="Number of qubits on the ring, at least 4 with built-in models."
    )
    rounds: Annotated[Integer, Purpose.DATA, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Sampling rounds. Each round excites every qubit once: rounds x qubits samples, at most "
        f"{MAX_SAMPLES}. With spin chains, rounds x qubits ground states. {_AUTOMATIC}",
    )
    data: Annotated[Data, Purpose.DATA, Affects.PROGRAM | Affects.ROWS] = Field(
        EXCITATIONS,
        description="Data source: generated excitations, ground states of a spin chain, or a table file.",
    )
    encoding: Annotated[Encoding, Purpose.DATA, Affects.NUMBERS | Affects.PROGRAM | Affects.ROWS] = Field(
        "excitation",
        description="State preparation: one excited qubit, rotations by features, or features as amplitudes.",
    )
    seed: Annotated[Integer, Purpose.DATA, Affects.NUMBERS] = Field(
        0,
        ge=0,
        le=2**32 - 1,
        description="Seed of the data, the split, the sample order and the initial weights.",
    )
    model: Annotated[Model, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "hybrid", description="Circuit and classical head."
    )
    simulator: Annotated[Simulator, Purpose.SIMULATION, Affects.PROGRAM] = Field(
        "auto",
        description="Simulator. auto selects the cheapest exact one that fits in memory. " + registry.describe_limits(),
    )
    optimizer: Annotated[Optimizer, Purpose.OPTIMIZATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "adam", description="Keras optimizer, with default settings except the learning rate."
    )
    hidden_units: Annotated[Integer, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        8,
        ge=1,
        le=4096,
        description="Units of the hidden dense layer, for models with several readouts. hidden_units x qubits: at most "
        f"{_MAX_WEIGHTS}.",
    )
    hidden_activation: Annotated[Activation, Purpose.MODEL, Affects.NUMBERS | Affects.PROGRAM] = Field(
        "linear", description="Activation of the hidden dense layer."
    )
    strategy: Annotated[Strategy, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        "multi_worker", description="TensorFlow distribution strategy."
    )
    workers: Annotated[Integer, Purpose.DISTRIBUTION, Affects.PROGRAM | Affects.DISTRIBUTION] = Field(
        2,
        ge=1,
        le=512,
        description=f"Number of training processes, including the chief with {strategies_with('chief')}.",
    )
    epochs: Annotated[Integer, Purpose.OPTIMIZATION, Affects.LENGTH] = Field(
        0, ge=0, le=1_000_000, description=f"Number of epochs. {_AUTOMATIC}"
    )
    batch_size: Annotated[Integer, Purpose.OPTIMIZATION, Affects.NUMBERS | Affects.PROGRAM] = Field(
        0,
        ge=0,
        le=MAX_SAMPLES,
        description="Global batch size over all workers, at least one sample each. batch_size x qubits: at most "
        f"{_MAX_BATCH_QUBITS}. {_AUTOMATIC}",
    )
    learning_rate: Annotated[float, Purpose.OPTIMIZATION, Affects.NUMBERS] = Field(
        0.05, gt=0, description="Peak learning rate."
    )
    options: Options = Field(default_factory=Options, description="All other fields.")

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, values: Any, handler: ModelWrapValidatorHandler["ExperimentConfig"]) -> "ExperimentConfig":
        """Fill in automatic values, and raise ConfigError for combinations that cannot run."""
        config = handler(values)
        config._check_data()
        automatic = (*(getattr(config, name) for name in AUTO_FIELDS), config.options.num_initializations)
        if 0 in (*automatic, *([config.options.classes] if config.is_classification else [])):
            config = handler(config._with_automatic_values())
        config._check()
        return config

    def _with_automatic_values(self) -> dict[str, Any]:
        """Return all fields, those that are 0 as `qcnn.experiment.defaults` computes them."""
        model, values = self.model, self.model_dump()
        values["options"]["num_initializations"] = self.options.num_initializations or defaults.num_initializations(
            model
        )
        if not self.is_file:
            if self.is_classification:
                values["options"]["classes"] = self.options.classes or self._class_count
            if self.has_ground_states:
                rounds = defaults.rounds_of_ground_states(self.qubits)
            else:
                rounds = defaults.rounds(model, self.qubits, self.options.train_fraction, MAX_SAMPLES)
            values["rounds"] = self.rounds or rounds
        if self.needs_row_count:
            return values
        count = self.options.max_samples if self.is_file else values["rounds"] * self.qubits
        samples = max(1, round(self.options.train_fraction * count))
        values["batch_size"] = self.batch_size or defaults.batch_size(samples, self.workers)
        used = min(samples, self.options.steps_per_epoch * values["batch_size"] or samples)
        values["epochs"] = self.epochs or defaults.epochs(model, used, values["batch_size"])
        return values

    def _check(self) -> None:
        requirements.check(all_fields(self), _DEFAULTS)
        if self.batch_size < self.num_replicas_in_sync and not (self.needs_row_count and self.batch_size == 0):
            field = "devices" if STRATEGIES[self.strategy].devices else "workers"
            raise ConfigError(
                f"batch_size: must be at least {field} ({self.num_replicas_in_sync}), one sample for each. "
                f"Given: {self.batch_size}"
            )
        if reason := registry.unsupported_reason(
            self.simulator,
            self.qubits,
            noise=bool(self.noise_in_training),
            shifts=self.options.gradient != "adjoint",
            states=self._states,
            inputs=self.encoding == "circuit",
        ):
            raise ConfigError(reason)
        self._check_noise()
        self._check_loss()
        for name, limit in (
            ("rounds", self.sample_limit),
            ("hidden_units", _MAX_WEIGHTS),
            ("batch_size", _MAX_BATCH_QUBITS),
        ):
            value = getattr(self, name)
            if value * self.qubits > limit:
                raise ConfigError(
                    f"{name}: {name} x qubits must be at most {limit}. Given: {value} with {self.qubits} qubits"
                )
        train, validation = self.options.train_fraction, self.options.validation_fraction
        if train + validation >= 1:
            raise ConfigError(
                "validation_fraction: train_fraction + validation_fraction must be less than 1, so that a test split "
                f"remains. Given: {train} + {validation}"
            )
        self._check_target()
        counts = self.split_counts
        if min(dataclasses.astuple(counts)) < 1 and not self.needs_row_count:
            field, source, number = "rounds", "rounds x qubits samples", f"{self.rounds} rounds of {self.qubits} qubits"
            if self.is_file:
                field, source, number = "data", "the file's rows", f"{self.options.max_samples} rows"
            raise ConfigError(
                f"{field}: {source} must leave at least one each for training, validation and test. "
                f"Given: {number}, split {counts.train} / {counts.validation} / {counts.test}"
            )

    @property
    def _states(self) -> str:
        """Reason, as part of a message, why samples are states, or an empty string if they are not."""
        given = f"data {self.data}" if self.has_ground_states else f"encoding {self.encoding}"
        return f"with {given}, whose samples are states" if self.preparation.kind == "state" else ""

    def _check_noise(self) -> None:
        if not self.noise_by_trajectories:
            return
        if self.options.shots:
            raise ConfigError(
                f"shots: must be 0 with noise above {NOISE_MAX_QUBITS} qubits, where trajectories estimate the "
                f"readouts. Given: {self.options.shots}"
            )
        needed = TRAJECTORY_BYTES * 2.0**self.qubits / 2**30
        if needed > self.options.simulator_memory_gib:
            raise ConfigError(
                f"noise: a trajectory of {self.qubits} qubits needs {needed:.3g} GiB; simulator_memory_gib is "
                f"{self.options.simulator_memory_gib}. Given: {self.options.noise}"
            )

    def _check_loss(self) -> None:
        options = self.options
        if options.classes and not self.is_classification:
            raise ConfigError(f"classes: must be 0 unless loss is cross_entropy. Given: {options.classes}")
        is_known = self.data in GENERATED
        if options.classes == 1 or (options.classes and is_known and options.classes != self._class_count):
            allowed = f"{self._class_count} with data {self.data}" if is_known else "at least 2, or 0"
            raise ConfigError(f"classes: must be {allowed}. Given: {options.classes}")
        if self.data in CHAINS and not self.is_classification and self._class_count > _GENERATED_CLASSES:
            raise ConfigError(
                f"loss: must be cross_entropy with data {self.data}, which has {self._class_count} classes. "
                f"Given: {options.loss}"
            )
        if options.momentum != _DEFAULTS["momentum"] and self.optimizer != "nesterov":
            raise ConfigError(
                f"momentum: must be {_DEFAULTS['momentum']} unless optimizer is nesterov. Given: {options.momentum} "
                f"with {self.optimizer}"
            )
        if self.is_classification and self.noise_by_trajectories:
            raise ConfigError(
                f"loss: must be mse with noise above {NOISE_MAX_QUBITS} qubits, where trajectories estimate the "
                f"readouts. Given: {options.loss}"
            )
        if options.head == "expectation" and options.classes > 2:
            raise ConfigError(
                f"head: must be auto, probabilities, softmax or dense with {options.classes} classes. "
                f"Given: {options.head}"
            )
        if options.observables and not is_embedded(self.model):
            raise ConfigError(
                f"observables: must be empty unless model is a circuit file. Given: {options.observables} with "
                f"{model_display_name(self.model)}"
            )
        self._check_inputs()
        if options.head in ("probabilities", "softmax") and not self.is_classification:
            raise ConfigError(
                f"head: must be auto, expectation or dense unless loss is cross_entropy. Given: {options.head}"
            )
        if options.temperature != _DEFAULTS["temperature"] and options.head not in ("probabilities", "softmax"):
            raise ConfigError(
                f"temperature: must be {_DEFAULTS['temperature']:g} unless head is probabilities or softmax. "
                f"Given: {options.temperature:g} with {options.head}"
            )

    def _check_inputs(self) -> None:
        options, name = self.options, model_display_name(self.model)
        if options.feature_map:
            raise ConfigError(
                "feature_map: must be empty unless model is built-in or a circuit file; qcnn.circuits.feature_maps has "
                f"the circuits. Given: {options.feature_map} with {name}"
            )
        if self.encoding != "circuit":
            if found := options.inputs or ",".join(embedded_inputs(self.model)):
                raise ConfigError(
                    f"encoding: must be circuit with a circuit that has inputs. Given: {self.encoding} with {found}"
                )
            return
        if not self.circuit_inputs:
            raise ConfigError(f"inputs: must be those of the circuit with encoding circuit. Given: none with {name}")
        if self.noise_by_trajectories:
            raise ConfigError(
                f"noise: must be empty above {NOISE_MAX_QUBITS} qubits with a circuit that has inputs. "
                f"Given: {options.noise}"
            )

    @property
    def circuit_inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the circuit: those of an embedded circuit, or else of the field `inputs`."""
        if is_embedded(self.model):
            return embedded_inputs(self.model)
        return parse_input_names(self.options.inputs) if self.options.inputs else ()

    def _check_data(self) -> None:
        """Raise ConfigError if a field requires other data than these."""
        for value in (self.model, self.data):
            if self.qubits < MIN_QUBITS and value in (*MODELS, *CHAINS):
                raise ConfigError(f"qubits: must be at least {MIN_QUBITS} with {value}. Given: {self.qubits}")
        options, is_encoded = self.options, self.encoding != "excitation"
        given = f"with data {self.data}"
        if is_encoded and not self.is_file:
            raise ConfigError(f"encoding: must be excitation unless data is a file. Given: {self.encoding} {given}")
        if self.rounds and self.is_file:
            raise ConfigError(f"rounds: must be 0 if data is a file. Given: {self.rounds} {given}")
        if options.max_samples and not self.is_file:
            raise ConfigError(
                f"max_samples: must be 0 unless data is a file; use rounds. Given: {options.max_samples} {given}"
            )
        if options.feature_scaling != "minmax" and self.encoding in ("excitation", "amplitude"):
            raise ConfigError(
                "feature_scaling: must be minmax unless encoding is rx, ry, rz, dense or circuit. "
                f"Given: {options.feature_scaling}"
            )
        if self.has_ground_states and self.qubits > MAX_DIAGONALIZED_QUBITS:
            raise ConfigError(
                f"qubits: must be at most {MAX_DIAGONALIZED_QUBITS} {given}, which is diagonalized. "
                f"Given: {self.qubits}"
            )
        if self.data in CHAINS and self.qubits % 2 and chain_of(self.data).is_even:
            raise ConfigError(f"qubits: must be even {given}. Given: {self.qubits}")
        if options.max_samples > self.sample_limit:
            raise ConfigError(
                f"max_samples: must be at most {self.sample_limit} with encoding {self.encoding} on {self.qubits} "
                f"qubits. Given: {options.max_samples}"
            )

    @property
    def is_file(self) -> bool:
        """Whether the samples are the rows of a file."""
        return self.data not in GENERATED and not self.is_custom_hamiltonian

    @property
    def is_custom_hamiltonian(self) -> bool:
        """Whether the samples are ground states of a Hamiltonian that a user's function returns."""
        return is_function_name(self.data)

    @property
    def has_ground_states(self) -> bool:
        """Whether the samples are computed ground states."""
        return self.data in CHAINS or self.is_custom_hamiltonian

    @property
    def _class_count(self) -> int:
        """Number of classes of data that are no file."""
        # Loads NumPy, which most experiments do not need.
        return len(chain_of(self.data).classes) if self.data in CHAINS else _GENERATED_CLASSES

    @property
    def sample_limit(self) -> int:
        """Maximum number of samples, whose features or amplitudes are all kept in memory."""
        if self.preparation.kind == "state":
            return _MAX_VALUES >> self.qubits
        if self.encoding == "excitation":
            return MAX_SAMPLES
        return min(MAX_SAMPLES, _MAX_VALUES // max(1, self.preparation.features))

    @property
    def needs_row_count(self) -> bool:
        """Whether the data file must be read before `batch_size` and `epochs` can be resolved."""
        return self.is_file and not self.options.max_samples

    @property
    def is_classification(self) -> bool:
        """Whether labels are classes, and predictions their probabilities."""
        return self.options.loss == "cross_entropy"

    @property
    def has_bound(self) -> bool:
        """Whether the MSE lower bound may be known."""
        return self.data == EXCITATIONS and not self.is_classification

    def _check_target(self) -> None:
        if not (self.options.target and self.options.target[0]):
            return
        if self.is_classification:
            raise ConfigError(
                "target_val_loss: the MSE lower bound is no bound of loss cross_entropy; set a loss such as 0.2. "
                f"Given: {self.options.target_val_loss}"
            )
        if self.data != EXCITATIONS:
            raise ConfigError(
                f"target_val_loss: the MSE lower bound is known for data {EXCITATIONS} only; set a loss such as 0.2. "
                f"Given: {self.options.target_val_loss} with data {self.data}"
            )
        # Only this check needs NumPy.
        from qcnn.circuits.error_bound import error_bound

        if error_bound(self.model, self.hidden_activation) is None:
            raise ConfigError(
                f"target_val_loss: the MSE lower bound of model {model_display_name(self.model)} with "
                f"hidden_activation {self.hidden_activation} is unknown; set a loss such as 0.2. "
                f"Given: {self.options.target_val_loss}"
            )

    @property
    def split_counts(self) -> "SplitCounts":
        """Number of samples in each split: train and validation are rounded, test is the rest."""
        samples = self.options.max_samples if self.is_file else self.rounds * self.qubits
        train = round(self.options.train_fraction * samples)
        validation = round(self.options.validation_fraction * samples)
        return SplitCounts(train, validation, samples - train - validation)

    def updates(self, samples: int) -> int:
        """Return the number of updates per epoch for a number of training samples."""
        batches = math.ceil(samples / self.batch_size)
        return min(batches, self.options.steps_per_epoch or batches)

    @property
    def preparation(self) -> Preparation:
        """State preparation of a sample. A qubit without a feature is not rotated."""
        if self.has_ground_states:
            return Preparation("state")
        return preparation_of(self.encoding, self.qubits, len(self.circuit_inputs))

    @property
    def noise_in_training(self) -> Noise:
        """Noise of training, export and serving. There is none above the number of qubits with exact noise."""
        return NOISELESS if self.noise_by_trajectories else noises.parse(self.options.noise)

    @property
    def noise_by_trajectories(self) -> Noise:
        """Noise that only the evaluation estimates, by trajectories."""
        return noises.parse(self.options.noise) if self.qubits > NOISE_MAX_QUBITS else NOISELESS

    @property
    def replicas(self) -> dict[str, int]:
        """Number of processes of each role: chief, worker, ps, evaluator."""
        return requirements.replicas(all_fields(self))

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of replicas that split each batch."""
        return requirements.num_replicas_in_sync(all_fields(self))

    @property
    def limits(self) -> SimulatorLimits:
        """Limits of a worker's simulator."""
        found = SimulatorLimits(
            memory=self.options.simulator_memory_gib * 2**30,
            batch=self.batch_size,
            real_bytes=REAL_BYTES[self.options.precision],
            replicas=self.num_replicas_in_sync,
            builtin_operations=STRATEGIES[self.strategy].builtin_operations,
        )
        # Sampled readouts are split by sample: each replica then computes its share as a separate step.
        return dataclasses.replace(found, batch=found.share, replicas=1) if self.options.shots else found

    def limits_on(self, *, gpus: bool) -> SimulatorLimits:
        """Return the limits of a worker's simulator. On GPUs, `auto` selects among simulators that run there."""
        is_restricted = gpus and self.simulator == "auto"
        limits = self.limits
        return dataclasses.replace(limits, builtin_operations=limits.builtin_operations or is_restricted)

    @property
    def gpu_fields(self) -> dict[str, str]:
        """Fields that require a GPU, with their values."""
        return requirements.gpu_fields(all_fields(self))

    def to_json(self) -> str:
        """Return the experiment as one line of JSON, as passed between steps. Job names depend on it."""
        return json.dumps(self.model_dump())


@dataclasses.dataclass(frozen=True)
class SplitCounts:
    """Number of samples in each split."""

    train: int
    validation: int
    test: int


# The typed parameters of the pipeline; `options` carries the rest.
EXPERIMENT_FIELDS: dict[str, FieldInfo] = {
    name: field for name, field in ExperimentConfig.model_fields.items() if name != "options"
}
OPTION_FIELDS: dict[str, FieldInfo] = dict(Options.model_fields)
ALL_FIELDS = {**EXPERIMENT_FIELDS, **OPTION_FIELDS}
_DEFAULTS = {name: field.default for name, field in ALL_FIELDS.items()}
_AFFECTS = {name: metadata_of(name, field, Affects) for name, field in ALL_FIELDS.items()}
PURPOSES = {name: metadata_of(name, field, Purpose) for name, field in ALL_FIELDS.items()}


def affecting(part: Affects) -> tuple[str, ...]:
    """Return the names of the fields on which a part of a run depends."""
    return tuple(name for name, affects in _AFFECTS.items() if part in affects)


def all_fields(config: ExperimentConfig) -> dict[str, Any]:
    """Return the values of all fields by name, also of those that are written only if they are used."""
    values = config.model_dump()
    options = values.pop("options")
    unused = {name: _DEFAULTS[name] for name in _WRITTEN_IF_USED if name not in options}
    return {**options, **unused, **values}


def changed_fields(config: ExperimentConfig) -> dict[str, Any]:
    """Return the fields of an experiment that are not defaults. Automatic values are resolved."""
    values = config.model_dump()
    values |= values.pop("options")
    return {name: value for name, value in values.items() if value != _DEFAULTS[name]}
