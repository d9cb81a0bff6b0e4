"""Run directory -> the page that shows what was sampled and why."""
