"""Groups: which devices a collective joins, from every spelling the compilers use.

Ids are positions in the flattened mesh: six axes in the order of `AXES`, each its dcn
part outside its ici part (`meshes.build.device_array`).
"""

import itertools
import math
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

Groups = tuple[tuple[int, ...], ...]
"""Every group by the ids of its members."""
Pairs = tuple[tuple[int, int], ...]
"""Source and target ids."""

_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_TRANSPOSED = re.compile(r"\[([\d,]+)\]T\(([\d,]+)\)")
_NAMED = re.compile(
    r"@?(?:mesh)?\[([^\]]*)\](?:,? *device_ids=\(?([^{]*?)\)?)? *\{([^{}]*)\}"
)
_NAMED_AXIS = re.compile(r"['\"]?([\w.\-]+)['\"]?=(\d+)")
_NAMED_PART = re.compile(r"['\"]([\w.\-]+)['\"](?::\((\d+)\)(\d+))?")
_PAIR = re.compile(r"\{(\d+),(\d+)\}")


def replica_groups(attributes: str, num_devices: int) -> Groups:
    """Returns the groups of a collective over `num_devices`.

    Spelt as lists `{{0,1},{2,3}}`, as `{}` for one group of all, as an iota
    `[4,2]<=[2,4]T(1,0)`, or by the axes of a mesh `mesh['a'=2,'b'=4] {'b':(2)2}`, whose
    `(2)2` is the part of size 2 inside a part of size 2. Raises ValueError for any
    other spelling, and where none is given.
    """
    text = _after(attributes, "replica_groups=")
    if found := _IOTA.match(text):
        shape, ids = _ints(found[1]), _iota(found[2], found[3])
        return _rows(ids, shape[-1])
    if text.startswith("{"):
        return _listed(text, num_devices)
    if found := _NAMED.match(text):
        return _named(found[1], found[2], found[3])
    raise ValueError(
        f"replica_groups={text[:60]!r} is neither a list, an iota nor names of axes"
    )


def source_target_pairs(attributes: str) -> Pairs:
    """Returns the pairs of a permute; raises ValueError where there are none."""
    text = _after(attributes, "source_target_pairs=")
    end = text.find("}}")
    pairs = tuple((int(a), int(b)) for a, b in _PAIR.findall(text[: end + 1]))
    if not pairs:
        raise ValueError(f"source_target_pairs={text[:60]!r} lists no pairs")
    return pairs


def _after(attributes: str, key: str) -> str:
    at = attributes.find(key)
    if at < 0:
        raise ValueError(f"a collective has no {key[:-1]}: {attributes[:80]!r}")
    return attributes[at + len(key) :]


def _listed(text: str, num_devices: int) -> Groups:
    """Returns `{{0,1},{2,3}}`; `{}` and `{{}}` are all devices in one group."""
    inner = text[1 : text.index("}}") + 1] if text.startswith("{{") else ""
    groups = tuple(_ints(ids) for ids in re.findall(r"\{([\d, ]*)\}", inner))
    if any(groups):
        return groups
    return (tuple(range(num_devices)),)


def _named(axes: str, device_ids: str | None, parts: str) -> Groups:
    """Returns the groups along some axes, or parts of axes, of a named mesh."""
    sizes = {name: int(size) for name, size in _NAMED_AXIS.findall(axes)}
    ids = _mesh_ids(device_ids, math.prod(sizes.values()))
    chosen = [_part(sizes, *part) for part in _NAMED_PART.findall(parts)]
    shape, joined = _split(sizes, chosen)
    apart = [dim for dim in range(len(shape)) if dim not in joined]
    members = math.prod(shape[dim] for dim in joined)
    return _rows(_transposed(ids, shape, [*apart, *joined]), members)


def _mesh_ids(device_ids: str | None, count: int) -> Sequence[int]:
    if not device_ids:
        return range(count)
    if found := _IOTA.search(device_ids):
        return _iota(found[2], found[3])
    # libtpu 0.0.42 writes the dims of the iota alone.
    if found := _TRANSPOSED.search(device_ids):
        return _iota(found[1], found[2])
    return _ints(device_ids.strip("[](), "))


def _part(
    sizes: dict[str, int], name: str, before: str, size: str
) -> tuple[str, int, int]:
    """Returns axis, the size of what lies outside the part, and that of the part."""
    if name not in sizes:
        known = ", ".join(sizes)
        raise ValueError(f"replica_groups name the axis {name!r}; the mesh has {known}")
    return (name, int(before), int(size)) if size else (name, 1, sizes[name])


def _split(
    sizes: dict[str, int], chosen: Sequence[tuple[str, int, int]]
) -> tuple[list[int], list[int]]:
    """Returns the dims of the mesh, cut at the chosen parts, and which are chosen."""
    shape: list[int] = []
    joined: dict[tuple[str, int, int], list[int]] = {part: [] for part in chosen}
    for name, size in sizes.items():
        mine = [part for part in chosen if part[0] == name]
        edges = {1, size}.union(*({start, start * n} for _, start, n in mine))
        for low, high in itertools.pairwise(sorted(edges)):
            for part in mine:
                if part[1] <= low and high <= part[1] * part[2]:
                    joined[part].append(len(shape))
            shape.append(high // low)
    return shape, [dim for dims in joined.values() for dim in dims]


def _iota(dims: str, order: str | None) -> Sequence[int]:
    shape = _ints(dims)
    ids = range(math.prod(shape))
    return _transposed(ids, shape, _ints(order)) if order else ids


def _transposed(
    ids: Sequence[int], shape: Sequence[int], order: Sequence[int]
) -> Sequence[int]:
    """Returns the ids of an array of `shape` with its dims in another order."""
    strides = list(itertools.accumulate(reversed(shape[1:]), int.__mul__, initial=1))
    strides.reverse()
    steps = [[at * strides[dim] for at in range(shape[dim])] for dim in order]
    return [ids[sum(place)] for place in itertools.product(*steps)]


def _rows(ids: Sequence[int], members: int) -> Groups:
    return tuple(_batched(ids, members))


def _batched(ids: Iterable[int], members: int) -> Iterator[tuple[int, ...]]:
    rest = iter(ids)
    while group := tuple(itertools.islice(rest, members)):
        yield group


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())
