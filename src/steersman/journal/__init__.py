"""A run as its directory records it: records, state, history, decisions. No Parsl, no bus, no torch."""
