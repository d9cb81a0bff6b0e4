"""How several processes fit one network together."""
