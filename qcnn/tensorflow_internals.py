"""Parts of TensorFlow outside its public interface, and errors if a release does not have them.

This module loads TensorFlow when the first function is called that needs it.
"""

import contextlib
import ctypes
import functools
import importlib.metadata
import importlib.util
import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError
from qcnn.process.operating_system import shared_library

if TYPE_CHECKING:
    import tensorflow as tf

# XLA's typed foreign function interface (xla/ffi/api/c_api.h), and its library.
_FFI, _FRAMEWORK = "XLA_FFI_GetApi", "tensorflow_framework"
# C interface of collective operations (tensorflow/c/eager/c_api_experimental.h).
_COLLECTIVES = "TFE_EnableCollectiveOps"
# Version of the arguments of XlaCallModule (tensorflow/compiler/tf2xla/kernels/xla_call_module_loader.h).
_MODULE_VERSION = 9


def missing_ffi() -> str:
    """Return why XLA of the installed TensorFlow cannot call functions of this package, or an empty string if it can.

    This function searches TensorFlow's library without loading it. Without TensorFlow it returns an empty string.
    """
    folder = _folder()
    if folder is None:
        return ""
    try:
        with (
            (folder / shared_library(_FRAMEWORK, 2)).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library,
        ):
            is_known = library.find(f"\0{_FFI}\0".encode()) >= 0
    except (OSError, ValueError):
        is_known = False
    return "" if is_known else f"TensorFlow {_release()} has no {_FFI}, which the release of the extra run has"


def register_handlers(library: ctypes.CDLL, function: str) -> None:
    """Register the handlers of a library with XLA.

    Args:
        library: Library of the handlers.
        function: Name of its function int (const XLA_FFI_Api *, char *message, size_t size), which registers them and
            returns 0, or sets the message.

    Raises:
        ConfigError: If TensorFlow has no foreign function interface, or not the version of the handlers.
    """
    purpose = "run the kernels of simulator statevector_cpu"
    with _required(_FFI, purpose):
        interface = _load(_FRAMEWORK)[_FFI]
    interface.restype = ctypes.c_void_p
    register = library[function]
    register.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    message = ctypes.create_string_buffer(256)
    if register(interface(), message, len(message)):
        raise _error(_FFI, purpose, message.value.decode(errors="replace"))
    with _required("gen_xla_ops.xla_call_module", purpose):
        _xla_call_module()


def call_module(module: str, operands: Sequence["tf.Tensor"], results: Sequence["tf.TensorSpec"]) -> list["tf.Tensor"]:
    """Return the results of a StableHLO module in a program that XLA compiles for CPUs. They have no gradient.

    Args:
        module: Text of the module.
        operands: Arguments of its function `main`.
        results: Shapes and types of the results.
    """
    called: list[tf.Tensor] = _xla_call_module()(
        operands,
        version=_MODULE_VERSION,
        module=module,
        Sout=[each.shape for each in results],
        Tout=[each.dtype for each in results],
        platforms=["CPU"],
        function_list=[],
        has_token_input_output=False,
        disabled_checks=[],
        use_shardy_partitioner=False,
    )
    return called


def liveness_check() -> Callable[[str], bool]:
    """Return the function that returns whether a process of the cluster still has the variables of this process.

    Its argument is the name of the process, such as /job:ps/replica:0/task:0. It raises tf.errors.OpError if there is
    no answer.

    Raises:
        ConfigError: If TensorFlow does not have the function.
    """
    with _required("context.check_alive", "monitor parameter servers"):
        from tensorflow.python.eager import context

        check: Callable[[str], bool] = context.check_alive
    return check


def is_saving() -> bool:
    """Return whether TensorFlow traces a function for a SavedModel.

    Raises:
        ConfigError: If TensorFlow does not have the function.
    """
    with _required("save_context.in_save_context", "save the layer of a circuit"):
        from tensorflow.python.saved_model import save_context

        found: bool = save_context.in_save_context()
    return found


@contextlib.contextmanager
def without_interpreter_lock() -> Iterator[None]:
    """Context manager in which TensorFlow joins a cluster without holding Python's interpreter lock.

    TensorFlow's binding of this function holds the lock until all processes have joined. Signals, heartbeats and
    timeouts would wait too, so there is no alternative to this function.

    Raises:
        ConfigError: If TensorFlow does not have the function or the binding.
    """
    with _required(_COLLECTIVES, "join the other processes of a training job"):
        from tensorflow.python import pywrap_tfe

        original = getattr(pywrap_tfe, _COLLECTIVES)
        library = _collectives()
    setattr(pywrap_tfe, _COLLECTIVES, functools.partial(_enable_collective_ops, library))
    try:
        yield
    finally:
        setattr(pywrap_tfe, _COLLECTIVES, original)


def _enable_collective_ops(library: Any, context: object, server: bytes) -> None:
    """Call TFE_EnableCollectiveOps of TensorFlow's C interface (tensorflow/c/eager/c_api_experimental.h).

    Args:
        library: Library with the function.
        context: Capsule of the TFE_Context.
        server: Serialized ServerDef.

    Raises:
        tf.errors.OpError: If this process cannot listen on its address, or another process fails.
    """
    import tensorflow as tf

    status = library.TF_NewStatus()
    try:
        library.TFE_EnableCollectiveOps(_pointer(context), server, len(server), status)
        code, message = library.TF_GetCode(status), library.TF_Message(status).decode(errors="replace")
    finally:
        library.TF_DeleteStatus(status)
    if code:
        raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)


def _collectives() -> Any:
    # Functions of ctypes.CDLL release the interpreter lock while they run.
    library: Any = _load("tensorflow_cc")
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_NewStatus.argtypes = ()
    library.TF_GetCode.argtypes = library.TF_Message.argtypes = library.TF_DeleteStatus.argtypes = (ctypes.c_void_p,)
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_DeleteStatus.restype = library.TFE_EnableCollectiveOps.restype = None
    library.TFE_EnableCollectiveOps.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
    return library


def _pointer(capsule: object) -> int:
    """Return the pointer of a capsule without a name."""
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return int(prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None))


def _xla_call_module() -> Callable[..., Any]:
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    function: Callable[..., Any] = gen_xla_ops.xla_call_module
    return function


def _folder() -> Path | None:
    """Return the folder of TensorFlow, or None if it is not installed."""
    spec = importlib.util.find_spec("tensorflow")
    return Path(spec.origin).parent if spec and spec.origin else None


def _load(library: str) -> ctypes.CDLL:
    """Return a library of TensorFlow, which this function loads."""
    import tensorflow as tf

    return ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), shared_library(library, 2))))


@contextlib.contextmanager
def _required(symbol: str, purpose: str) -> Iterator[None]:
    """Context manager that looks a symbol up.

    Raises:
        ConfigError: If it does not exist.
    """
    try:
        yield
    except (ImportError, AttributeError, OSError):
        raise _error(symbol, purpose) from None


def _error(symbol: str, purpose: str, reason: str = "") -> ConfigError:
    """Return the error of a release of TensorFlow without a symbol, or with a different one."""
    return ConfigError(
        f"TensorFlow: must have {symbol}{reason and f' ({reason})'} to {purpose}; the extras of qcnn install releases "
        f"that have it. Given: TensorFlow {_release()}"
    )


def _release() -> str:
    try:
        return importlib.metadata.version("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown release"
