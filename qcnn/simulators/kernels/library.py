"""Compiled kernels as custom calls of XLA programs."""

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from qcnn.operating_system import cores_of_quota
from qcnn.simulators.kernels import LIBRARY
from qcnn.simulators.kernels.encoding import EncodedProgram
from qcnn.simulators.kernels.program import MIN_THREAD_WORK
from qcnn.simulators.tensor_ops import as_input

_SUFFIXES = {tf.float32: "float", tf.float64: "double"}
# Bytes for the alignment of kept states (ALIGNMENT in statevector.c).
_ALIGNMENT_BYTES = 2 * 64
# Maximum number of threads of a call (MAX_THREADS in threads.inc).
_MAX_THREADS = 64
# xla::CustomCallTargetRegistry of TensorFlow (xla/service/custom_call_target_registry.h): `Global` and `Register`.
_REGISTRY = "_ZN3xla24CustomCallTargetRegistry6GlobalEv"
_REGISTER = "_ZN3xla24CustomCallTargetRegistry8RegisterERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPvS8_"

# Callers define the gradient of the kernels. TensorFlow would still ask for that of the operation.
tf.no_gradient("XlaCustomCallV2")


class _String(ctypes.Structure):
    """std::string of libstdc++, as a constant."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("rest", ctypes.c_char * 16)]


class Threads(NamedTuple):
    """Threads of a call.

    Attributes:
        maximum: Maximum number of threads, at most `max_threads()`.
        share_bundles: Whether the threads share the operations of a bundle, instead of one thread for each.
    """

    maximum: int
    share_bundles: bool


def max_threads() -> int:
    """Return the maximum number of threads of a call.

    The kernels use at most as many threads as there are cores by affinity, but they do not read the CPU quota.
    """
    return min(_MAX_THREADS, cores_of_quota() or _MAX_THREADS)


@functools.cache
def register() -> None:
    """Register the kernels with XLA, once per process."""
    kernels = ctypes.CDLL(str(LIBRARY))
    tensorflow = ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    registry, add = tensorflow[_REGISTRY], tensorflow[_REGISTER]
    registry.restype, add.restype = ctypes.c_void_p, None
    add.argtypes = [ctypes.c_void_p, ctypes.POINTER(_String), ctypes.c_void_p, ctypes.POINTER(_String)]
    platform = _String(b"Host", len(b"Host"))
    for name in [
        f"qcnn_{direction}_{suffix}" for direction in ("forward", "backward") for suffix in _SUFFIXES.values()
    ]:
        symbol = _String(name.encode(), len(name))
        add(registry(), ctypes.byref(symbol), ctypes.cast(kernels[name], ctypes.c_void_p), ctypes.byref(platform))


def forward(
    program: EncodedProgram, threads: Threads, parameters: tf.Tensor, states: tf.Tensor, *, keep: bool
) -> list[tf.Tensor]:
    """Return the values, float64 (bundles, values, lanes), and the evolved states if they are kept.

    Args:
        program: Program to run.
        threads: Threads of the call.
        parameters: Circuit parameters, float64 (parameters,).
        states: Input states, (bundles, amplitudes, 2, lanes).
        keep: Whether to return the evolved states, which `backward` reads.
    """
    bundles, lanes = states.shape[0], states.shape[-1]
    dtypes, shapes = [tf.float64], [[bundles, program.values, lanes]]
    if keep:
        dtypes.append(states.dtype)
        shapes.append([bundles * program.rows * 2 * lanes + _ALIGNMENT_BYTES // states.dtype.size])
    return _call("forward", program, threads, [parameters, states], dtypes, shapes, keep=keep)


def backward(
    program: EncodedProgram,
    threads: Threads,
    parameters: tf.Tensor,
    states: tf.Tensor,
    upstream: tf.Tensor,
    kept: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return the gradient with respect to the parameters, float64 (parameters,).

    Args:
        program: Program to run.
        threads: Argument of `forward`.
        parameters: Argument of `forward`.
        states: Argument of `forward`.
        upstream: Gradient with respect to the values, float64 (bundles, values, lanes).
        kept: Evolved states that `forward` returned, or None to compute them again.
    """
    operands = [parameters, states, upstream, *([] if kept is None else [kept])]
    dtypes, shapes = [tf.float64], [[program.parameters]]
    return _call("backward", program, threads, operands, dtypes, shapes, keep=kept is not None)[0]


def _call(
    direction: str,
    program: EncodedProgram,
    threads: Threads,
    operands: list[tf.Tensor],
    dtypes: list[tf.DType],
    shapes: list[list[int]],
    *,
    keep: bool,
) -> list[tf.Tensor]:
    bundles, suffix = operands[1].shape[0], _SUFFIXES[operands[1].dtype]
    if bundles * program.rows * program.operations < MIN_THREAD_WORK:
        threads = threads._replace(maximum=1)
    encoded = [as_input(program.integers), as_input(program.constants), tf.constant([bundles, *threads], tf.int32)]
    name, mode = f"qcnn_{direction}_{suffix}", "keep" if keep else "drop"
    results: list[tf.Tensor] = gen_xla_ops.xla_custom_call_v2([*encoded, *operands], name, mode, False, dtypes, shapes)
    return results
