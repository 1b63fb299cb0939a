"""Objects of Kubernetes as text that kubectl apply -f - takes."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

FORMS = ("yaml", "json")
# Text that readers of YAML 1.1 such as kubectl's take for a number or a boolean, and PyYAML does not: 1e3, y.
_NOT_TEXT = re.compile(r"[-+.]*\d.*|[yYnN]", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Writes text so that every reader of YAML takes it for text."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NOT_TEXT.fullmatch(text) else None)


_Dumper.add_representer(str, _text)
# Each object is written out, however often it is used.
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def as_text(objects: Sequence[Mapping[str, Any]], form: str) -> str:
    """Return objects as the documents of a YAML file, or as a List in JSON."""
    if form == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=float("inf"), explicit_start=True)
