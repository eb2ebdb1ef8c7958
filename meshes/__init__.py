"""Meshes: what a transformer is computed on."""
