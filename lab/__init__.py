"""Experiments whose figures docs/ shows, from a checkout: `python -m lab.NAME`. Not in the wheel.

What users measure on their own machines is benchmarks/, `steersman bench NAME`.
"""
