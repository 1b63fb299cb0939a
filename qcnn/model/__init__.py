"""What is trained: the network with its head, its steps, batches, weights and checkpoints."""
