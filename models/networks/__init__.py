"""Networks and other surrogates: what is fitted."""
