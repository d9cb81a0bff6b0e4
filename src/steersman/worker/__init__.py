"""What runs on a node for the engine: walkers, training and scoring jobs."""
