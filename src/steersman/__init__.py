"""Steersman: a workflow engine that couples simulations with deep learning."""
