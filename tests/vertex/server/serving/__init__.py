"""Models, endpoints and what they predict, by the SavedModels that they are given."""
