"""The Python interface, exported by the package qcnn."""
