"""Reading programs: processor seconds to parse and account for a program's text.

    python benchmarks/hlo_accounting.py PROGRAM.hlo.gz [...]

For each stored program of `scaling compile`, which lies beside its run file: the size
of its text, and the seconds for parsing, for the accounting, and for a megabyte. Those
of small and large programs tell whether the time is linear in the text.
"""

import gzip
import sys
import time
from pathlib import Path

from scaling.hlo.accounting import account_of_module
from scaling.hlo.module import parse
from scaling.measurement import Measurement
from scaling.point import Point


def main(paths: list[str]) -> None:
    """Prints a line for each program."""
    for path in map(Path, paths):
        text = gzip.decompress(path.read_bytes()).decode()
        point, megabytes = _point(path), len(text) / 1e6
        begin = time.process_time()
        module = parse(text)
        parsed = time.process_time()
        account_of_module(module, point.mesh)
        end = time.process_time()
        print(
            f"{point.model} on {point.chip} {point.mesh}: {megabytes:.1f} MB, parse "
            f"{parsed - begin:.2f} s, account {end - parsed:.2f} s, "
            f"{(end - begin) / megabytes:.2f} s a MB"
        )


def _point(path: Path) -> Point:
    stored = path.with_name(path.name.removesuffix(".hlo.gz") + ".json")
    return Measurement.model_validate_json(stored.read_bytes()).point


if __name__ == "__main__":
    main(sys.argv[1:])
