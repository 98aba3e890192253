"""A pytest plugin: property tests give no verdict about time, since drawing alone may take seconds on shared cores."""

from hypothesis import HealthCheck, settings

settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
