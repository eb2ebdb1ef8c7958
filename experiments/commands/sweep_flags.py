"""Sweep flags: SWEEP, and the flags that spell out points instead of it."""

import argparse


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """Adds SWEEP and the flags that give points instead of it."""
    parser.add_argument(
        "sweep",
        metavar="SWEEP",
        nargs="?",
        help="a name that `scaling show sweeps` lists, or a Python file that defines "
        "`sweep`; nothing where points are given by flags",
    )
    group = parser.add_argument_group(
        "points by flags", "each repeats; every combination is a point"
    )
    add = group.add_argument
    add("--model", action="append", metavar="NAME", help="as `show models` lists")
    add(
        "--chip",
        action="append",
        metavar="NAME[:SLICE]",
        help="as `show chips` lists; v5p:4x4x8 fixes the slice in chips, h100-sxm:4 "
        "the GPUs that NVLink joins; or a file of `scaling calibrate`",
    )
    add(
        "--mesh",
        action="append",
        metavar="DCN/ICI",
        help="axes across slices, a slash, axes within one: data=2/fsdp=4,tensor=2; "
        "1/1 is one device",
    )
    add(
        "--batch",
        action="append",
        metavar="N",
        help="sequences per optimizer step over the whole mesh (strong scaling)",
    )
    add(
        "--batch_per_device",
        action="append",
        metavar="N",
        help="the same per device (weak scaling); one of the two",
    )
    add(
        "--seq_len",
        action="append",
        metavar="N",
        help="tokens per sequence; the model's own context if not given",
    )
    add(
        "--set",
        action="append",
        metavar="FIELD=VALUE",
        help="any field of a point: remat=full, attention=splash, data=synthetic, …",
    )
