"""Makes an environment for this checkout, once, with progress. Standard library only.

    python3 tools/venv.py [--extra test] [--venv .venv]

Does nothing where it already holds this interpreter, these dependencies and the extra.
An environment of another interpreter is removed and made again.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEY = "made_from.json"

USUAL_SECONDS = 90
"""Only for the time left that is shown: on 2 cores with an empty pip cache."""


def main() -> int:
    """Makes the environment; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extra", default="", choices=["", "test", "cuda,test"])
    parser.add_argument("--venv", default=".venv", help="folder in the checkout")
    args = parser.parse_args()
    extra, venv = args.extra, ROOT / args.venv
    key = venv / KEY
    if sys.version_info < (3, 11):
        return _fail(
            f"Python {sys.version.split()[0]} at {sys.executable} is too old; "
            "needs 3.11 or newer, as in: make demo PYTHON=python3.12"
        )
    wanted = {"interpreter": _interpreter(), "dependencies": _dependencies()}
    made = json.loads(key.read_text()) if key.exists() else {}
    if {name: made.get(name) for name in wanted} != wanted:
        made = {}
    if made and extra in made["extras"]:
        return 0
    if not made:
        status = _create(venv)
        if status:
            return status
    status = _install(venv, extra)
    if status:
        return status
    extras = sorted({*made.get("extras", []), "", extra})
    key.write_text(json.dumps({**wanted, "extras": extras}))
    return 0


def _interpreter() -> str:
    return f"{sys.version} {Path(sys.base_prefix).resolve()}"


def _dependencies() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def _create(venv: Path) -> int:
    if venv.exists():
        print(f"Remaking {venv.name} for Python {sys.version.split()[0]}", flush=True)
        shutil.rmtree(venv)
    done = subprocess.run([sys.executable, "-m", "venv", str(venv)], check=False)
    if done.returncode:
        shutil.rmtree(venv, ignore_errors=True)
        return _fail(
            f"{sys.executable} cannot make virtual environments; on Debian and Ubuntu "
            "install the package python3-venv"
        )
    return 0


def _install(venv: Path, extra: str) -> int:
    target = f".[{extra}]" if extra else "."
    print(
        f"Installing {target} into {venv.name} (usually {USUAL_SECONDS} s)", flush=True
    )
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--editable"]
    process = subprocess.Popen(
        [*command, target, "--progress-bar", "off", "--disable-pip-version-check"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = _show_progress(process)
    if process.wait():
        print("".join(lines[-40:]), file=sys.stderr)
        return _fail("pip could not install the project; its last lines are above")
    return 0


def _show_progress(process: subprocess.Popen[str]) -> list[str]:
    """Prints what pip is at and the time left while it works; returns its output.

    Unpacking is one long silent step, so a thread of its own keeps the time.
    """
    started = time.monotonic()
    lines: list[str] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(5):
            spent = time.monotonic() - started
            left = max(USUAL_SECONDS - spent, 5)
            stage = _stage(lines)
            print(f"  {spent:3.0f} s  {stage}; about {left:.0f} s left", flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    assert process.stdout is not None
    lines.extend(iter(process.stdout.readline, ""))
    done.set()
    ticker.join()
    print(f"  {time.monotonic() - started:3.0f} s  installed", flush=True)
    return lines


def _stage(lines: list[str]) -> str:
    packages = sum(line.startswith("Collecting ") for line in lines)
    unpacking = any(line.startswith("Installing collected") for line in lines)
    return f"{'unpacking' if unpacking else 'collecting'} {packages} packages"


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
