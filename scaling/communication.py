"""Communication: what the devices of a point send each other in one step.

Bytes of a collective are what one device sends. What each parallelism sends: the
scaling-book (jax-ml.github.io/scaling-book) "training".
"""

from scaling.activation_traffic import crossing_activations
from scaling.cost import Collective
from scaling.point import Point
from scaling.rewrites import as_compiled
from scaling.weight_traffic import gathered_weights
from scaling.weight_traffic import looked_up_table
from scaling.weight_traffic import summed_gradients

_PARTS = (gathered_weights, summed_gradients, crossing_activations, looked_up_table)


def collectives(point: Point) -> tuple[Collective, ...]:
    """Returns every collective of one optimizer step, of one device."""
    asked_for = (each for part in _PARTS for each in part(point))
    return tuple(run for each in asked_for for run in as_compiled(each, point))
