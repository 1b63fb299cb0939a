"""The process of a command or worker: start, output, signals, exit, and the machine on which it runs."""
