"""Checkpoint: the state saved with Orbax, asynchronously and sharded.

A save returns once the state is copied off the devices and is written meanwhile; only
`close` says that all of it is durable. A checkpoint is restored onto the mesh of the
state that is wanted, which need not be the one it was saved from.
"""

import logging
import time
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

_log = logging.getLogger(__name__)

KEPT = 2
"""Newest checkpoints that are kept: one whole while the next is being written."""


class Checkpoints:
    """The checkpoints of one run, in a folder that no other run writes to."""

    def __init__(self, folder: Path):
        # Orbax refuses a relative path only after it has begun to write there.
        self._folder = folder.absolute()
        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, create=True)
        self._manager = ocp.CheckpointManager(
            self._folder,
            options=options,
            # Named here, or what is stored cannot be looked at before it is restored.
            item_handlers=ocp.StandardCheckpointHandler(),
        )
        self.blocked_s = 0.0
        """How long training waited for saves, over all of them."""
        self._last_saved: int | None = None

    def save(self, step: int, state: Any) -> None:
        """Begins to save the state after `step` steps; the state may then be donated.

        Raises what an earlier save that was still being written failed with.
        """
        started_s = time.perf_counter()
        self._manager.save(step, args=ocp.args.StandardSave(state))
        self.blocked_s += time.perf_counter() - started_s
        self._last_saved = step

    def restore(self, step: int, abstract_state: Any) -> Any:
        """Returns the state after `step` steps in the layout of `abstract_state`.

        Raises ValueError where a stored array has another dtype: Orbax would convert
        it without a word.
        """
        stored = self._manager.item_metadata(step)
        _check_dtypes(stored, abstract_state)
        return self._manager.restore(
            step, args=ocp.args.StandardRestore(abstract_state)
        )

    def close(self) -> None:
        """Returns when every save is durable; raises if one failed."""
        started_s = time.perf_counter()
        self._manager.wait_until_finished()
        self._manager.close()
        step = self._last_saved
        # Orbax gives a checkpoint its name once it is whole.
        if step is not None and not (self._folder / str(step)).is_dir():
            raise RuntimeError(f"the checkpoint of step {step} was not written")
        _log.info(
            "checkpoints: training waited %.3f s, then %.3f s until durable",
            self.blocked_s,
            time.perf_counter() - started_s,
        )


def _check_dtypes(stored: Any, wanted: Any) -> None:
    found = {_name(path): leaf.dtype for path, leaf in _leaves(stored)}
    for path, leaf in _leaves(wanted):
        name = _name(path)
        if name not in found:
            raise ValueError(f"{name} is not in the checkpoint")
        if found[name] != leaf.dtype:
            raise ValueError(
                f"{name} is stored as {found[name]} and wanted as {leaf.dtype}; "
                "restore it in the dtype it was saved in"
            )


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
