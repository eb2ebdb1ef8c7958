"""Compilations: counts the programs that this process compiles while it is watched."""

from typing import Any

import jax

# JAX's name for one compilation by the backend, fetched from a cache or not.
_EVENT = "/jax/core/compile/backend_compile_duration"


class CompilationCounter:
    """Number of backend compilations inside `with counter:` blocks, added up."""

    def __init__(self) -> None:
        self.count = 0
        self._watching = False
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def __enter__(self) -> "CompilationCounter":
        self._watching = True
        return self

    def __exit__(self, *error: object) -> None:
        self._watching = False

    def _listen(self, event: str, duration_secs: float, **kwargs: Any) -> None:
        del duration_secs, kwargs
        if self._watching and event == _EVENT:
            self.count += 1
