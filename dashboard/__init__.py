"""Run directory -> the page that tells what was sampled and why."""
