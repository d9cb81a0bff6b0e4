"""How a network is fitted by one process."""
