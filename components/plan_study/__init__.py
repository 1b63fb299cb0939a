"""Check a study and make its trials."""
