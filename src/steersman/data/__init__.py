"""A run as a scientist's data: opened as tables and datasets, and exported. It reads run directories only."""
