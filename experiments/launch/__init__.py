"""Launchers: how worker processes are started."""
