"""Where a run executes: site files become Parsl executors."""
