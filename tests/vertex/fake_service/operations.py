"""Long-running operations, which slow methods return and clients poll until they are done."""

import time
from collections.abc import Callable
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.state import State, copied, cut_page


class Operations:
    """All operations of the server. Operations that start while operations are held never end."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held = False

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {
            "Operations/GetOperation": lambda request: copied(self._get(request.name)),
            "Operations/WaitOperation": self._wait,
            "Operations/ListOperations": self._list,
            "Operations/CancelOperation": self._cancel,
            "Operations/DeleteOperation": self._delete,
        }

    def hold(self) -> None:
        """Make operations that start from now on never end."""
        self._held = True

    def release(self) -> None:
        """Make operations that start from now on end normally."""
        self._held = False

    def run(self, name: str, work: Callable[[], Any], metadata: Any = None) -> operations_pb2.Operation:
        """Run `work` and return the operation of the resource `name`, with the result of `work` as its response."""
        operation = operations_pb2.Operation(name=f"{name}/operations/{self._state.new_id()}")
        if metadata is not None:
            operation.metadata.CopyFrom(_packed(metadata))
        if not self._held:
            answer = work()
            operation.response.CopyFrom(_packed(empty_pb2.Empty() if answer is None else answer))
            operation.done = True
        self._state.add(operation.name, operation)
        return copied(operation)

    def _get(self, name: str) -> Any:
        return self._state.get(operations_pb2.Operation, name)

    def _wait(self, request: Any) -> Any:
        end = time.monotonic() + request.timeout.ToTimedelta().total_seconds()
        with self._state.changed:
            operation = self._get(request.name)
            while not operation.done and (left := end - time.monotonic()) > 0:
                self._state.changed.wait(left)
            return copied(operation)

    def _list(self, request: Any) -> Any:
        found = [each for each in self._state.all(operations_pb2.Operation) if each.name.startswith(request.name)]
        page, token = cut_page(found, request.page_size, request.page_token)
        return operations_pb2.ListOperationsResponse(operations=page, next_page_token=token)

    def _cancel(self, request: Any) -> Any:
        with self._state.changed:
            operation = self._get(request.name)
            if not operation.done:
                operation.done = True
                operation.error.code, operation.error.message = 1, "The operation was cancelled."
                self._state.changed.notify_all()
        return empty_pb2.Empty()

    def _delete(self, request: Any) -> Any:
        if not self._get(request.name).done:
            raise StatusError(400, f"The operation is not done. Name: {request.name}")
        self._state.remove(request.name)
        return empty_pb2.Empty()


def _packed(message: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(type(message).pb(message) if hasattr(type(message), "pb") else message)
    return packed
