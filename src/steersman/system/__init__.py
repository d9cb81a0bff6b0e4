"""What every room needs of the operating system, each once: files, processes, the node; and the base of the errors."""
