"""InferenceServices of KServe as a target."""
