"""Runs that are started from Python."""
