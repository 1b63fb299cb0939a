"""Compiled kernels as custom calls of XLA programs."""

import ctypes
import functools
from collections.abc import Sequence

import tensorflow as tf

from qcnn import tensorflow_internals
from qcnn.simulators.kernels import LIBRARY, Threads
from qcnn.simulators.kernels.encoding import EncodedProgram
from qcnn.simulators.kernels.program import MIN_THREAD_WORK
from qcnn.simulators.tensor_ops import as_input

_SUFFIXES = {tf.float32: "float", tf.float64: "double"}
# Types of elements in StableHLO.
_ELEMENTS = {tf.int32: "i32", tf.float32: "f32", tf.float64: "f64"}
# Bytes for the alignment of kept states (ALIGNMENT in statevector.c).
_ALIGNMENT_BYTES = 2 * 64


@functools.cache
def register() -> None:
    """Register the kernels with XLA, once per process.

    Raises:
        ConfigError: If TensorFlow's interface for this does not have the version of the kernels.
    """
    tensorflow_internals.register_handlers(ctypes.CDLL(str(LIBRARY)), "qcnn_register")


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
    results = [tf.TensorSpec((bundles, program.values, lanes), tf.float64)]
    if keep:
        size = bundles * program.rows * 2 * lanes + _ALIGNMENT_BYTES // states.dtype.size
        results.append(tf.TensorSpec((size,), states.dtype))
    return _call("forward", program, threads, [parameters, states], results)


def backward(
    program: EncodedProgram,
    threads: Threads,
    parameters: tf.Tensor,
    states: tf.Tensor,
    upstream: tf.Tensor,
    kept: tf.Tensor | None = None,
    *,
    of_states: bool = False,
) -> list[tf.Tensor]:
    """Return the gradient with respect to the parameters, float64 (parameters,), and to the input states.

    Args:
        program: Program to run.
        threads: Argument of `forward`.
        parameters: Argument of `forward`.
        states: Argument of `forward`.
        upstream: Gradient with respect to the values, float64 (bundles, values, lanes).
        kept: Evolved states that `forward` returned, or None to compute them again.
        of_states: Whether to return the gradient with respect to the input states, which a program with inputs needs.
    """
    operands = [parameters, states, upstream, *([] if kept is None else [kept])]
    results = [tf.TensorSpec((program.parameters,), tf.float64)]
    if of_states:
        results.append(tf.TensorSpec(states.shape, states.dtype))
    return _call("backward", program, threads, operands, results)


def _call(
    direction: str,
    program: EncodedProgram,
    threads: Threads,
    operands: Sequence[tf.Tensor],
    results: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    bundles, suffix = operands[1].shape[0], _SUFFIXES[operands[1].dtype]
    if bundles * program.rows * program.operations < MIN_THREAD_WORK:
        threads = threads._replace(maximum=1)
    inputs = [as_input(program.integers), as_input(program.constants), *operands]
    module = _module(f"qcnn_{direction}_{suffix}", threads, inputs, results)
    # Callers define the gradient of the kernels. TensorFlow would still ask for that of the operation.
    return [tf.stop_gradient(each) for each in tensorflow_internals.call_module(module, inputs, results)]


def _module(kernel: str, threads: Threads, operands: Sequence[tf.Tensor], results: Sequence[tf.TensorSpec]) -> str:
    """Return the text of a StableHLO module that calls a kernel (StableHLO specification, custom_call)."""
    names = [f"%{number}" for number in range(len(operands))]
    arguments = [f"{name}: {_type_of(each)}" for name, each in zip(names, operands, strict=True)]
    returned = [f"%results#{number}" for number in range(len(results))]
    operand_types, result_types = ", ".join(map(_type_of, operands)), ", ".join(map(_type_of, results))
    options = f"share_bundles = {str(threads.share_bundles).lower()}, threads = {threads.maximum} : i32"
    return f"""func.func @main({", ".join(arguments)}) -> ({result_types}) {{
  %results:{len(results)} = stablehlo.custom_call @{kernel}({", ".join(names)}) {{
    api_version = 4 : i32, backend_config = {{{options}}},
    operand_layouts = [{", ".join(map(_layout_of, operands))}], result_layouts = [{", ".join(map(_layout_of, results))}]
  }} : ({operand_types}) -> ({result_types})
  return {", ".join(returned)} : {result_types}
}}"""


def _type_of(tensor: tf.Tensor | tf.TensorSpec) -> str:
    return f"tensor<{''.join(f'{size}x' for size in tensor.shape)}{_ELEMENTS[tensor.dtype]}>"


def _layout_of(tensor: tf.Tensor | tf.TensorSpec) -> str:
    """Return the layout of C: the last dimension is contiguous."""
    rank = tensor.shape.rank
    return f"dense<{list(reversed(range(rank)))}> : tensor<{rank}xindex>"
