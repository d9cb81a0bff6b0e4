"""Policies -> the same campaign with each of them, several times -> which one pays."""
