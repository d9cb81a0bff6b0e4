"""What runs on a node: simulate, train, score; plain functions that work without the engine."""
