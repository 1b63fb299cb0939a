"""Files in buckets: nothing else opens one. Addresses are local folders, gs://, s3:// or minio://."""
