"""What MaxText measured on v4, v5e, v5p and v6e, compiled: how far off are we?

Question: how near do the step times of `scaling compile` come to those that were
measured on real slices, shape by shape?
Command: scaling compile maxtext_tpu; then python benchmarks/published_steps.py
Takes: an hour of compilation on 2 cores; it goes on where it was stopped.
Expect: the middle of the band within 15 % of what was published for most rows, as
docs/compile.md lists them.
"""

from experiments.sweep import Sweep
from scaling.published_steps import PUBLISHED_STEPS

sweep = Sweep(
    name="maxtext_tpu",
    question="How near do compiled step times come to those measured on real TPUs?",
    points=tuple(step.point for step in PUBLISHED_STEPS),
    repeats=1,
)
