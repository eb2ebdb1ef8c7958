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

_ASKED_FOR = (crossing_activations, looked_up_table)


def collectives(point: Point) -> tuple[Collective, ...]:
    """Returns the collectives of one optimizer step, of one device.

    One of each kind over the same axes of a network, summed over the step.
    """
    asked_for = (each for part in _ASKED_FOR for each in part(point))
    run = (as_compiled(each, point) for each in asked_for)
    found: dict[tuple[object, ...], Collective] = {}
    for each in (*gathered_weights(point), *run, *summed_gradients(point)):
        key = (each.kind, each.axes, each.network)
        found[key] = found[key].plus(each) if key in found else each
    return tuple(found.values())
