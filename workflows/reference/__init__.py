"""Problems whose truth is known, to measure steering by: `steersman compare wells`."""
