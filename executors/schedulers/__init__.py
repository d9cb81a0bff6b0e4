"""Schedulers that give a run its nodes: a file each, and a line in `registry`."""
