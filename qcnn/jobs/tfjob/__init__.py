"""A training as a TFJob: manifests, and what creates, follows, reads and deletes TFJobs."""
