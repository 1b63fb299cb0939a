"""The Python interface: what `import qcnn` offers."""
