"""Fields on the sphere <-> spherical harmonics: for the solver of shallow water and for networks alike."""
