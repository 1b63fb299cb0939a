"""Pipeline definitions, one module each, and their compiler."""
