"""`scaling show`: what is known about models, chips, sweeps and published curves."""

import argparse

from experiments.given import whole
from experiments.usage import print_json
from experiments.usage import user_mistakes

TOPICS = ("models", "chips", "sweeps", "curves")
USAGE = "TOPIC [NAME] [--seq_len N] [--json]"
SUMMARY = "what is known: models, chips, sweeps, published curves"
EXAMPLES = """\
examples:
  scaling show models            every model, its parameters and FLOPs
  scaling show models llama2-7b --seq_len 8192
  scaling show chips v5e         peaks, memory and links, each with its source
  scaling show sweeps cpu_quick  what it asks, how long it takes, its points
  scaling show curves            scaling curves that others published
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling show`."""
    parser.add_argument(
        "topic", choices=TOPICS, metavar="TOPIC", help=f"one of {', '.join(TOPICS)}"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="all if not given")
    parser.add_argument(
        "--seq_len",
        metavar="N",
        help="tokens per sequence for the FLOPs of models (default: the model's own)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints what is known and returns the exit code."""
    from experiments.show import known

    with user_mistakes():
        seq_len = None if args.seq_len is None else whole(args.seq_len, "seq_len")
        found = known(args.topic, args.name, seq_len=seq_len)
    if args.json:
        print_json(found)
        return 0
    from experiments.show_text import print_known

    print_known(args.topic, found)
    return 0
