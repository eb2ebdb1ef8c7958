"""Search over every mesh and policy: candidates, seconds and microseconds of each.

    python benchmarks/search.py [--devices 256] [--repeats 3]

Llama 3 8B on v5p, all splits into slices, all policies: what `scaling plan --search`
does between its start and its tables, on one core. Seconds of the processor, so that
others on the machine matter less.
"""

import argparse
import statistics
import time

from meshes.hardware import chip
from meshes.spec import MeshSpec
from scaling.candidates import candidates
from scaling.candidates import splits
from scaling.point import Point
from scaling.search import search


def main() -> None:
    """Searches a few times and prints the median."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    base = Point(
        model="llama3-8b",
        chip="v5p",
        mesh=MeshSpec(),
        global_batch_size=2 * args.devices,
        seq_len=4096,
    )
    v5p = chip("v5p")
    took_s: list[float] = []
    for _ in range(args.repeats):
        begin = time.process_time()
        found = search(candidates(base, splits(v5p, args.devices)), v5p)
        took_s.append(time.process_time() - begin)
    seconds = statistics.median(took_s)
    print(f"candidates {found.num_candidates}")
    print(f"meshes {found.num_meshes}")
    print(f"fit {len(found.ranked)}")
    print(f"seconds {seconds:.2f}")
    print(f"microseconds_each {seconds / found.num_candidates * 1e6:.0f}")
    print(f"seconds_for_10000 {seconds / found.num_candidates * 1e4:.2f}")


if __name__ == "__main__":
    main()
