"""Where experiments are sent, and how they are followed there: one folder a target."""
