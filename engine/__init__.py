"""What a run is and does: workflow, engine, journal, command line."""
