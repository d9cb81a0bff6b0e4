"""Gradients -> weights: the optimizer, its rate at every moment, and the numbers in which gradients come."""
