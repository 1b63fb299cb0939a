"""The circuits of the network, and what is known of them without a simulator."""
