"""What a command takes, as flags."""
