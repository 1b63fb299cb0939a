"""Google's clients in the test process, with the certificate as argument instead of environment variables."""

import grpc
from google.cloud import aiplatform_v1 as v1
from google.cloud.aiplatform_v1.services.endpoint_service.transports.grpc import EndpointServiceGrpcTransport
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.services.model_service.transports.grpc import ModelServiceGrpcTransport
from google.cloud.aiplatform_v1.services.pipeline_service.transports.grpc import PipelineServiceGrpcTransport
from google.cloud.aiplatform_v1.services.prediction_service.transports.grpc import PredictionServiceGrpcTransport
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport

from tests.vertex.fake_service.vertex import Vertex


def channel(server: Vertex) -> grpc.Channel:
    """Return a channel to the server with an access token."""
    trust = grpc.ssl_channel_credentials(server.certificate)
    token = grpc.access_token_call_credentials("token")
    return grpc.secure_channel(server.endpoint, grpc.composite_channel_credentials(trust, token))


def jobs(server: Vertex) -> v1.JobServiceClient:
    """Return the client of JobService."""
    return v1.JobServiceClient(transport=JobServiceGrpcTransport(channel=channel(server)))


def pipelines(server: Vertex) -> v1.PipelineServiceClient:
    """Return the client of PipelineService."""
    return v1.PipelineServiceClient(transport=PipelineServiceGrpcTransport(channel=channel(server)))


def models(server: Vertex) -> v1.ModelServiceClient:
    """Return the client of ModelService."""
    return v1.ModelServiceClient(transport=ModelServiceGrpcTransport(channel=channel(server)))


def endpoints(server: Vertex) -> v1.EndpointServiceClient:
    """Return the client of EndpointService."""
    return v1.EndpointServiceClient(transport=EndpointServiceGrpcTransport(channel=channel(server)))


def predictions(server: Vertex) -> v1.PredictionServiceClient:
    """Return the client of PredictionService."""
    return v1.PredictionServiceClient(transport=PredictionServiceGrpcTransport(channel=channel(server)))


def logging(server: Vertex) -> LoggingServiceV2Client:
    """Return the client of Cloud Logging."""
    return LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel(server)))


def python_pool(program: str, count: int = 1) -> v1.WorkerPoolSpec:
    """Return a worker pool whose container runs a Python program."""
    return v1.WorkerPoolSpec(
        machine_spec={"machine_type": "n1-standard-4"},
        replica_count=count,
        container_spec={"image_uri": "image", "command": ["python", "-c"], "args": [program]},
    )


def custom_job(*pools: v1.WorkerPoolSpec, **spec: object) -> v1.CustomJob:
    """Return a custom job of worker pools."""
    return v1.CustomJob(display_name="job", job_spec={"worker_pool_specs": list(pools), **spec})
