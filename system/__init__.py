"""What every room needs of the operating system, each once, and the base of the errors."""
