"""Eight CPU devices for every test of this process, set before JAX is imported."""

import os

from hypothesis import settings

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"

# A deadline per example is a stopwatch on a shared machine, not a property.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
