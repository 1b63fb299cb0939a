"""The targets vertex and vertex-job: pipelines, custom jobs and endpoints on Vertex AI."""
