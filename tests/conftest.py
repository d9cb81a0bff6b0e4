"""How every property test is run: always on the same examples; `make soak` draws new ones."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000)
settings.load_profile("new" if os.environ.get("STEERSMAN_SOAK") else "same")
