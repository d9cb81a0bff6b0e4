"""How every test is run: one thread a process, property tests on the same examples; `make soak` draws new ones."""

import os

from hypothesis import HealthCheck, settings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # more wait for each other on busy cores

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000)
settings.load_profile("new" if os.environ.get("STEERSMAN_SOAK") else "same")
