"""How a training is shared out: strategies, the roles of processes, and the devices of each."""
