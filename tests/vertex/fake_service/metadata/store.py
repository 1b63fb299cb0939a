"""Vertex ML Metadata: artifacts, executions and the contexts that contain them."""

import collections
import datetime
from collections.abc import Iterable
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.state import State, copied

INPUT, OUTPUT = v1.Event.Type.INPUT, v1.Event.Type.OUTPUT


class Metadata:
    """Default metadata store of a project."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.store = f"{state.parent(f'projects/{state.project}/locations/{state.location}')}/metadataStores/default"
        # Names of the artifacts and executions, and of the child contexts, of each context.
        self.members: dict[str, set[str]] = collections.defaultdict(set)
        self.children: dict[str, set[str]] = collections.defaultdict(set)
        self.events: list[v1.Event] = []

    def keep(self, kind: type[Any], collection: str, identifier: str = "", **fields: Any) -> Any:
        """Create an artifact, execution or context, and return a copy of it."""
        now = datetime.datetime.now(datetime.UTC)
        name = f"{self.store}/{collection}/{identifier or self._state.new_id()}"
        made = kind(name=name, create_time=now, update_time=now, etag="1", **fields)
        self._state.add(name, made)
        return copied(made)

    def ensure_context(self, identifier: str, schema: str, display_name: str) -> v1.Context:
        """Return a context, and create it if it does not exist."""
        with self._state.changed:
            name = f"{self.store}/contexts/{identifier}"
            for context in self._state.all(v1.Context):
                if context.name == name:
                    return context
            fields = {"schema_title": schema, "schema_version": "0.0.1", "display_name": display_name}
            return self.keep(v1.Context, "contexts", identifier, **fields)  # type: ignore[no-any-return]

    def hold(self, context: str, *names: str) -> None:
        """Add artifacts and executions to a context."""
        with self._state.changed:
            self.members[context] |= set(names)

    def link(self, execution: str, artifacts: Iterable[str], kind: Any) -> None:
        """Record artifacts as inputs or outputs of an execution."""
        with self._state.changed:
            for artifact in artifacts:
                self.events.append(v1.Event(execution=execution, artifact=artifact, type_=kind))
