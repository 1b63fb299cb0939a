"""What `window` is made of: parts and observables, and readouts of product states."""
