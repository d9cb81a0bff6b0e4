"""Science: simulations as plain functions that work without the engine, a folder a science."""
