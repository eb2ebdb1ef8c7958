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

    def checkpoints(self, name: str) -> Path:
        """Returns the folder of the checkpoints of the run `name`, while it runs."""
        return self.work / f".{name}.checkpoints"

    def keep_log(self, name: str, logs: Sequence[Path]) -> None:
        """Joins the logs of a run's processes into one beside its run file.

        A log that cannot be kept is no reason to lose a run.
        """
        with contextlib.suppress(OSError):
            for index, path in enumerate(logs[1:], start=1):
                if path.stat().st_size:
                    with open(logs[0], "ab") as whole, open(path, "rb") as part:
                        whole.write(f"\n[process {index}]\n".encode())
                        shutil.copyfileobj(part, whole)
                path.unlink()
            if not logs[0].stat().st_size:
                logs[0].unlink()
            elif self.store != str(self.work):
                _upload(logs[0], f"{self.store}/{name}.log")

    def discard(self, name: str, logs: Sequence[Path]) -> None:
        """Removes the logs and checkpoints of a run that is not recorded."""
        for path in logs:
            path.unlink(missing_ok=True)
        self.discard_checkpoints(name)

    def discard_checkpoints(self, name: str) -> None:
        """Removes the checkpoints of a run: they were written to be timed."""
        shutil.rmtree(self.checkpoints(name), ignore_errors=True)


def _upload(path: Path, target: str) -> None:
    from etils import epath

    epath.Path(target).write_bytes(path.read_bytes())
    path.unlink()
