"""Secrets in the environment of pods, which everybody who may look at a TFJob or a pipeline can read."""

import re
from collections.abc import Mapping

# Words of a name, as in AWS_SECRET_ACCESS_KEY; KEY alone is too common.
_WORDS = "SECRET|TOKEN|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY"
_NAME = re.compile(rf"(^|_)({_WORDS})(_|$)")
# Endings of names of public values, or of files: AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS=/a/b.
_PUBLIC = re.compile(r"_(ID|FILE|PATH|DIR|URL|URI)$")
# A password in an address, a key as files hold it, keys of Amazon, tokens of GitHub.
_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}"
)


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that look like a secret, by name or by value."""
    return [name for name, value in environment.items() if _VALUE.search(value) or _is_named_so(name, value)]


def _is_named_so(name: str, value: str) -> bool:
    upper = name.upper()
    return bool(value and _NAME.search(upper) and not _PUBLIC.search(upper) and not value.startswith("/"))
