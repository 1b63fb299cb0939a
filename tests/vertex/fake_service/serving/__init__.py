"""Models, endpoints, and predictions of their SavedModels."""
