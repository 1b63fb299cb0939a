"""What pydantic refuses of settings, in one line."""

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from qcnn.trainer.errors import ConfigError, given


def refusal(
    error: ValidationError,
    root: str,
    model: type[BaseModel],
    parts: Mapping[str, tuple[type[BaseModel], str | None]] | None = None,
) -> ConfigError:
    """Return one line with the first setting of a model that is wrong, its value, and what its description allows.

    The setting's name begins with `root`. `parts` are the settings that map names to models of their own, and what each
    of these must be.
    """
    first = error.errors(include_url=False)[0]
    # Pydantic says "[key]" where it is the key of a mapping that is wrong.
    path = [str(part) for part in first["loc"] if part != "[key]"]
    name, field, fields = ".".join((root, *path)), path[0], model.model_fields
    allowed = fields[field].description if field in fields else None
    if parts and field in parts and len(path) > 1:
        part, allowed = parts[field]
        if len(path) > 2:
            fields = part.model_fields
            allowed = fields[path[2]].description if path[2] in fields else None
    if first["type"] == "missing":
        return ConfigError(f"{name}: must be given. Given: none")
    # A key that is no text is none of them either.
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return ConfigError(f"{name}: unknown key; the keys are {', '.join(fields)}. Given: {given(first['input'])}")
    return ConfigError(f"{name}: must be {allowed}. Given: {given(first['input'])}")
