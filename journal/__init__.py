"""A run as its directory tells it: records, state, history, decisions. No Parsl, no bus, no torch."""
