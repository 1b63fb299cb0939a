"""Cost estimates of training runs: simulators, memory and seconds."""
