"""Divisors: the sizes that an axis of so many devices may have."""

import math


def divisors(number: int) -> tuple[int, ...]:
    """Returns the divisors of a positive number, from 1 to itself."""
    small = [size for size in range(1, math.isqrt(number) + 1) if number % size == 0]
    return tuple(sorted({*small, *(number // size for size in small)}))
