"""The trained network: quantum layer and head, compiled steps, batches, optimizer and checkpoints."""
