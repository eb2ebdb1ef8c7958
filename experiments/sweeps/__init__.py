"""Sweeps: one file an experiment."""
