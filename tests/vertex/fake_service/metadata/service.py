"""MetadataService: access of clients to the metadata store."""

from collections.abc import Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.metadata.store import Metadata
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.state import State, copied

# Message class and collection of each resource type in a store.
_KINDS: dict[str, tuple[Any, str]] = {
    "Artifact": (v1.Artifact, "artifacts"),
    "Execution": (v1.Execution, "executions"),
    "Context": (v1.Context, "contexts"),
}
_FILTERED = (
    "name",
    "display_name",
    "uri",
    "state",
    "schema_title",
    "schema_version",
    "create_time",
    "update_time",
    "metadata",
    "labels",
    "parent_contexts",
    "child_contexts",
)


class MetadataService:
    """Handlers that create, list, update, delete and link artifacts, executions and contexts."""

    def __init__(self, state: State, metadata: Metadata, operations: Operations) -> None:
        self._state, self._metadata, self._operations = state, metadata, operations
        state.add(metadata.store, v1.MetadataStore(name=metadata.store))

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        found: dict[str, Handler] = {
            "MetadataService/GetMetadataStore": lambda request: self._state.copy(v1.MetadataStore, request.name),
            "MetadataService/AddContextArtifactsAndExecutions": self._add_members,
            "MetadataService/AddContextChildren": self._add_children,
            "MetadataService/AddExecutionEvents": self._add_events,
            "MetadataService/QueryContextLineageSubgraph": self._context_lineage,
            "MetadataService/QueryExecutionInputsAndOutputs": self._execution_lineage,
        }
        for kind in _KINDS:
            found |= self._handlers_of(kind)
        return found

    def _handlers_of(self, kind: str) -> dict[str, Handler]:
        message, collection = _KINDS[kind]
        field = kind.lower()
        answer = getattr(v1, f"List{kind}sResponse")

        def create(request: Any) -> Any:
            self._state.get(v1.MetadataStore, request.parent)
            given: Mapping[str, Any] = message.to_dict(getattr(request, field))
            wanted = {key: value for key, value in given.items() if value and key not in ("name", "etag")}
            return self._metadata.keep(message, collection, getattr(request, f"{field}_id"), **wanted)

        def listing(request: Any) -> Any:
            functions = {"in_context": self._in_context}
            page, token = self._state.page(message, request, _FILTERED, functions)
            return answer(**{collection: page}, next_page_token=token)

        def update(request: Any) -> Any:
            given = getattr(request, field)
            with self._state.changed:
                kept = self._state.get(message, given.name)
                for path in request.update_mask.paths or [
                    key for key, value in message.to_dict(given).items() if value
                ]:
                    if path not in ("name", "create_time", "update_time"):
                        setattr(kept, path, getattr(given, path))
                return copied(kept)

        def delete(request: Any) -> Any:
            name = self._state.get(message, request.name).name
            return self._operations.run(name, lambda: self._state.remove(name), v1.DeleteOperationMetadata())

        return {
            f"MetadataService/Create{kind}": create,
            f"MetadataService/Get{kind}": lambda request: self._state.copy(message, request.name),
            f"MetadataService/List{kind}s": listing,
            f"MetadataService/Update{kind}": update,
            f"MetadataService/Delete{kind}": delete,
        }

    def _in_context(self, found: Mapping[str, Any], context: str) -> bool:
        return found["name"] in self._metadata.members[self._state.parent(context)]

    def _add_members(self, request: Any) -> Any:
        context = self._state.get(v1.Context, request.context)
        names = [self._state.parent(name) for name in (*request.artifacts, *request.executions)]
        self._metadata.hold(context.name, *names)
        return v1.AddContextArtifactsAndExecutionsResponse()

    def _add_children(self, request: Any) -> Any:
        with self._state.changed:
            parent = self._state.get(v1.Context, request.context)
            for name in request.child_contexts:
                child = self._state.get(v1.Context, name)
                if parent.name not in child.parent_contexts:
                    child.parent_contexts.append(parent.name)
                self._metadata.children[parent.name].add(child.name)
        return v1.AddContextChildrenResponse()

    def _add_events(self, request: Any) -> Any:
        execution = self._state.get(v1.Execution, request.execution)
        for event in request.events:
            if not event.artifact:
                raise StatusError(400, "Required field `events.artifact` is not set.")
            self._metadata.link(execution.name, [self._state.parent(event.artifact)], event.type_)
        return v1.AddExecutionEventsResponse()

    def _context_lineage(self, request: Any) -> Any:
        with self._state.changed:
            members = self._metadata.members[self._state.get(v1.Context, request.context).name]
            return self._subgraph(members)

    def _execution_lineage(self, request: Any) -> Any:
        with self._state.changed:
            execution = self._state.get(v1.Execution, request.execution).name
            return self._subgraph(
                {execution, *(event.artifact for event in self._metadata.events if event.execution == execution)}
            )

    def _subgraph(self, names: set[str]) -> v1.LineageSubgraph:
        return v1.LineageSubgraph(
            artifacts=[each for each in self._state.all(v1.Artifact) if each.name in names],
            executions=[each for each in self._state.all(v1.Execution) if each.name in names],
            events=[event for event in self._metadata.events if event.execution in names],
        )
