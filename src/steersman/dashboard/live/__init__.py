"""Run directory -> a page that shows the run while it goes on, and afterwards."""
