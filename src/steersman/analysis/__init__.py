"""Run directories -> unbiased answers from biased starts: a Markov state model over all segments."""
