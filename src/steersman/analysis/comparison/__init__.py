"""Policies, or parameters -> the same campaign with each of them -> which ones pay."""
