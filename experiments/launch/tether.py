"""Tether: ends this process when its parent ends, then becomes the given command.

Run by path, `python -I -S tether.py PARENT_PID COMMAND…`: a child cannot set this
safely between fork and exec, and the command must be covered from its first moment.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its parent and replaces it by the command."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have gone before the tie was there.
    if os.getppid() != int(parent):
        sys.exit("the runner is gone")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot start {command[0]!r}: {error.strerror}")


if __name__ == "__main__":
    main()
