"""Files and folders in buckets (gs://, s3://, minio://).

All access to buckets goes through this package.
"""
