"""What machines of a cloud cost, and how many of them the processes of a job take."""
