"""Runs -> what they say: unbiased answers from biased starts; which policy, and which parameters, pay."""
