"""Link TensorBoard."""
