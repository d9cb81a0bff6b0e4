"""Schedulers that give a run its nodes: a file each, which `registry` finds."""
