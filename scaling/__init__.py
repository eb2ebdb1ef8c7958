"""Scaling: what the measurements mean."""
