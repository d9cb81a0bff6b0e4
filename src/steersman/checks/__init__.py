"""Before a run: does the file work, does it fit this machine, does the site do what it is asked? It starts no run."""
