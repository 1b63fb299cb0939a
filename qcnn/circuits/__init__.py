"""Circuits of the network, their data states, noise and file formats, without simulators."""
