"""Command line: `scaling COMMAND …`; `python -m experiments.cli` is the same.

Exit codes: 0 done; 1 a fault of this program; 2 the command cannot be done as given,
said in one sentence on stderr; 3 with --strict where a point is not `ok`; 128 and the
number of the signal where interrupted.
"""

import argparse
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import NoReturn

from absl import app
from absl.flags import argparse_flags

from experiments.given import unknown
from experiments.usage import UsageError

OURS = Path(__file__).resolve().parent.parent
PACKAGES = ("meshes", "models", "scaling")
COMMANDS = ("show", "plan", "compile", "run", "calibrate", "report", "compare")

DESCRIPTION = """\
Where does training a transformer stop scaling on this hardware: vertically
(more devices in a slice) or horizontally (more slices)?
"""
EXAMPLES = """\
start here:
  scaling plan cpu_quick   what would be measured, and how long it takes
  scaling run cpu_quick    measure it; Ctrl-C and run again to go on
  scaling report results   the verdict, and a page with the curves

`scaling COMMAND --help` explains a command and gives examples.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command of `argv`, by default that of the process, and exits."""
    try:
        app.run(_run, argv=None if argv is None else list(argv), flags_parser=_parse)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _run(args: argparse.Namespace) -> int:
    """Returns the exit code of a parsed command."""
    try:
        code = args.run(args)
        sys.stdout.flush()
    except UsageError as error:
        sys.stdout.flush()
        return _refuse(str(error))
    except BrokenPipeError:
        # The reader has left, as `| head` does. Nothing is to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def _parse(argv: list[str]) -> argparse.Namespace:
    if (complaint := foreign_package()) is not None:
        sys.exit(_refuse(complaint))
    try:
        return parsed(argv[1:])
    except UsageError as error:
        sys.exit(_refuse(str(error)))


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Returns the parsed arguments of a command; raises UsageError."""
    whole = parser()
    found, extra = whole.parse_known_args(arguments)
    if not extra:
        return found
    if extra[0].startswith("-"):
        flags = whole.flags_of(found.command)
        raise UsageError(unknown("flag", extra[0].partition("=")[0], flags))
    raise UsageError(f"unexpected argument {extra[0]!r}")


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"scaling: {' '.join(sentence.split())}\n")
    return 2


def foreign_package() -> str | None:
    """Returns what to say if Python finds another package by one of our names.

    Somebody's own `models.py` beside them would be imported in the place of ours.
    """
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin)
        if found is None or found.resolve().parent.parent != OURS:
            return (
                f"Python finds {found or 'nothing'} under the name {name!r} instead of "
                f"{OURS / name}; start `scaling` from another folder and without "
                "PYTHONPATH, in an environment of its own"
            )
    return None


class Parser(argparse_flags.ArgumentParser):
    """Parser whose complaints are one sentence, with the nearest choices."""

    def __init__(self, **kwargs: Any):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        # Without `--helpfull`, which would explain flags of libraries.
        super().__init__(add_help=False, allow_abbrev=False, **kwargs)
        self.add_argument("-h", "--help", action="help", help="show this and exit")

    def error(self, message: str) -> NoReturn:
        """Raises UsageError instead of printing the usage and exiting."""
        raise UsageError(f"{message}; `{self.prog} --help` explains")

    def flags_of(self, command: str) -> tuple[str, ...]:
        """Returns the flags of a subcommand."""
        (commands,) = (
            action
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        options = commands.choices[command]._option_string_actions
        return tuple(option for option in options if option.startswith("--"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise UsageError(unknown(str(action.metavar), str(value), action.choices))


class _CommandParser(Parser):
    """Parser of one command; the flags of absl belong before it."""

    def __init__(self, **kwargs: Any):
        super().__init__(inherited_absl_flags=None, **kwargs)


def parser() -> Parser:
    """Returns the parser of the whole command line."""
    modules = {name: command_module(name) for name in COMMANDS}
    # Listed by hand: argparse breaks such a list differently between versions.
    listed = "\n".join(f"  {name:<11}{m.SUMMARY}" for name, m in modules.items())
    result = Parser(
        prog="scaling",
        description=f"{DESCRIPTION}\ncommands:\n{listed}",
        epilog=EXAMPLES,
    )
    commands = result.add_subparsers(
        metavar="COMMAND",
        dest="command",
        required=True,
        parser_class=_CommandParser,
        help="one of the commands above",
    )
    for name, module in modules.items():
        command = commands.add_parser(
            name,
            # Of our own: argparse breaks long ones differently between versions.
            usage=f"scaling {name} {module.USAGE}",
            description=f"{module.SUMMARY[:1].upper()}{module.SUMMARY[1:]}.",
            epilog=module.EXAMPLES,
        )
        module.add_flags(command)
        command.set_defaults(run=module.run)
    return result


def command_module(command: str) -> ModuleType:
    """Returns the module of a command: USAGE, SUMMARY, EXAMPLES, functions."""
    return importlib.import_module(f"experiments.commands.{command}")


if __name__ == "__main__":
    main()
