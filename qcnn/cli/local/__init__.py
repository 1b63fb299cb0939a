"""The commands of this machine."""
