"""Compiler log: what a compiler warned of while it made a program, tensor by tensor.

The one place where a log is read for results: no interface of JAX tells it.
"""

import re
from pathlib import Path

from scaling.measurement import CompilerWarning

# "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {…}
# to {…} efficiently for HLO operation %copy = f32[8,4]{1,0} copy(…), …,
# metadata={op_name="…" …}. …", as XLA says it in JAX 0.10 and 0.12 and in libtpu.
_REMATERIALIZATION = re.compile(
    r"\[SPMD\] Involuntary full rematerialization\. The compiler cannot go from "
    r"sharding (?P<before>\{.*?\}) to (?P<after>\{.*?\}) efficiently for HLO operation "
    r"(?P<tensor>%\S+ = \w+\[[\d,]*\])"
)
_OP_NAME = re.compile(r'op_name="(?P<name>[^"]*)"')


def warnings_in(log: Path) -> tuple[CompilerWarning, ...]:
    """Returns every warning of a log once, in its order; none if there is no log."""
    found: dict[CompilerWarning, None] = {}
    try:
        with open(log, errors="replace") as lines:
            for line in lines:
                if warning := _warning(line):
                    found[warning] = None
    except OSError:
        return ()
    return tuple(found)


def _warning(line: str) -> CompilerWarning | None:
    match = _REMATERIALIZATION.search(line)
    if match is None:
        return None
    op_name = _OP_NAME.search(line, match.end())
    return CompilerWarning(
        kind="involuntary_rematerialization",
        tensor=match["tensor"],
        op_name=op_name and op_name["name"],
        before=match["before"],
        after=match["after"],
    )
