"""Experiments: how points are run."""
