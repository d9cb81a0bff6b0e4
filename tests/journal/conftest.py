"""Some of these tests look at whole runs."""

from tests.engine.conftest import no_driver_outlives_its_tests as no_driver_outlives_its_tests
