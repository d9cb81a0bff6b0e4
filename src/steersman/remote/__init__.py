"""Runs at another machine: submitted, watched and fetched over Globus Compute."""
