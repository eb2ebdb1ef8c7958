"""Places: where a sweep keeps its runs, and where its processes work meanwhile.

Runs may go to a bucket; logs in the making, checkpoints, token records and the lock
need this machine's own file system, which is the same folder where that is local.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.store import HLO_SUFFIX
from experiments.store import Folder


@dataclass(frozen=True, kw_only=True)
class Places:
    """Folders of one sweep."""

    store: str
    """Of the run files; may be remote."""
    work: Path
    """Of the lock, logs and checkpoints; absolute."""
    data: Path
    """Of prepared token records, which all sweeps share; absolute."""

    @classmethod
    def of(cls, results: Folder, sweep: str) -> "Places":
        """Returns the places of a sweep under a results folder, local or remote."""
        text = os.fspath(results)
        if "://" not in text:
            root = Path(text).resolve()
            work = root / sweep
            return cls(store=str(work), work=work, data=root / ".data")
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        root = Path.home() / ".cache" / "scaling-toolkit" / name
        store = f"{text.rstrip('/')}/{sweep}"
        return cls(store=store, work=root / sweep, data=root / ".data")

    def log(self, name: str, process: int = 0) -> Path:
        """Returns the log of one process of the run `name`, while it runs."""
        return self.work / (f"{name}.p{process}.log" if process else f"{name}.log")

    def hlo(self, name: str) -> Path:
        """Returns the text of the program of the run `name`, while it is compiled."""
        return self.work / f"{name}{HLO_SUFFIX}"

    def keep_hlo(self, name: str) -> None:
        """Moves the program's text to where its run file will be.

        Raises what a bucket's library raises where it cannot.
        """
        path = self.hlo(name)
        if self.store != str(self.work):
            _upload(path, f"{self.store}/{path.name}")

    def checkpoints(self, name: str) -> Path:
        """Returns the folder of the checkpoints of the run `name`, while it runs."""
        return self.work / f".{name}.checkpoints"

    def keep_log(self, name: str, logs: Sequence[Path]) -> str | None:
        """Joins the logs of a run's processes into one beside its run file.

        A log that cannot be kept is no reason to lose a run: returns a warning then.
        """
        try:
            self._keep_log(name, logs)
        # A bucket's library raises errors of its own.
        except Exception as error:
            return f"the log of {name} could not be kept: {error}"
        return None

    def _keep_log(self, name: str, logs: Sequence[Path]) -> None:
        first = logs[0]
        for index, path in enumerate(logs[1:], start=1):
            # A process that was not started has none.
            if path.exists():
                _append(path, to=first, title=f"process {index}")
        if not first.exists():
            return
        if not first.stat().st_size:
            first.unlink()
        elif self.store != str(self.work):
            _upload(first, f"{self.store}/{name}.log")

    def discard(self, name: str, logs: Sequence[Path]) -> None:
        """Removes the logs and checkpoints of a run that is not recorded.

        What cannot be removed is removed before the next command's first run.
        """
        for path in (*logs, self.hlo(name)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        self.discard_checkpoints(name)

    def discard_checkpoints(self, name: str) -> str | None:
        """Removes the checkpoints of a run, which were written to be timed.

        Returns a warning if some are left: they may be large.
        """
        folder = self.checkpoints(name)
        shutil.rmtree(folder, ignore_errors=True)
        return f"{folder} could not be removed" if folder.exists() else None


def _append(path: Path, *, to: Path, title: str) -> None:
    if path.stat().st_size:
        with open(to, "ab") as whole, open(path, "rb") as part:
            whole.write(f"\n[{title}]\n".encode())
            shutil.copyfileobj(part, whole)
    path.unlink()


def _upload(path: Path, target: str) -> None:
    from etils import epath

    epath.Path(target).write_bytes(path.read_bytes())
    path.unlink()
