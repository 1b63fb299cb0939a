"""What noise makes of states and observables."""
