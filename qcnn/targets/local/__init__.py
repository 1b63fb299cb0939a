"""The target local: runs of this machine."""
