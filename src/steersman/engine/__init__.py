"""What a run is and does: workflow, driver, journal, what is found out about it."""
