"""Eight CPU devices for every test of this process, set before JAX is imported."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
