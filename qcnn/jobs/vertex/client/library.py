"""The client library of Vertex AI and Cloud Logging, loaded without what it says about releases of Python.

It takes a second and a half to load, so only what talks to Vertex AI imports this module or one that does.
"""

import warnings

with warnings.catch_warnings():
    # The library warns of Python releases that it will not support some day.
    warnings.simplefilter("ignore", FutureWarning)
    import google.auth as auth
    from google.api_core import exceptions as exceptions
    from google.auth import exceptions as auth_exceptions
    from google.cloud import aiplatform_v1 as aiplatform
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
    from google.cloud.logging_v2.types import ListLogEntriesRequest, LogEntry

__all__ = [
    "ListLogEntriesRequest",
    "LogEntry",
    "LoggingServiceV2Client",
    "aiplatform",
    "auth",
    "auth_exceptions",
    "exceptions",
]
