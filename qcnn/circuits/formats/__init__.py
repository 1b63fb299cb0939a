"""Circuit files: import from OpenQASM and cirq JSON, embedding in experiments, and export."""
