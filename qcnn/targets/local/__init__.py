"""The target local: runs on the local machine."""
