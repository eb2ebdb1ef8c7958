"""Models: what is computed."""
