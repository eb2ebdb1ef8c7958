"""The real worker with one fault planted, which its point's mesh and batch choose.

    python tests/faulty_worker.py --events_fd N

See `tests/experiments/test_real_failures.py` and `test_worker.py` there.
"""

import os
import resource
import signal
import sys
from pathlib import Path

from experiments import worker
from experiments.event_writer import EventWriter
from experiments.protocol import BlockEnded
from experiments.protocol import Event
from experiments.protocol import Job

SPARE_BYTES = 64 * 2**20


class Saboteur(EventWriter):
    """Strikes right after the worker has sent a certain event."""

    job: Job

    def send(self, event: Event) -> None:
        super().send(event)
        point = self.job.point
        peer = point.mesh.num_slices > 1
        if peer and self.job.process_index != 1:
            return
        if isinstance(event, BlockEnded):
            strike(point.global_batch_size, peer=peer)

    def phase_ended(self, name: str, *, at_s: float | None = None) -> None:
        super().phase_ended(name, at_s=at_s)
        if name == "compile" and self.job.point.global_batch_size == 8192:
            leave_no_memory()
        if name == "data" and self.job.point.model == "small":
            # Enough to compile, too little for parameters and moments: 2.2 GB.
            leave_no_memory(2**30)


def strike(batch: int, *, peer: bool) -> None:
    if batch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if batch == 4:
        os.kill(os.getpid(), signal.SIGSTOP) if peer else os.abort()


def leave_no_memory(spare_bytes: int = SPARE_BYTES) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + spare_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def note_job(validate: object) -> object:
    def noting(line: bytes) -> Job:
        Saboteur.job = validate(line)
        return Saboteur.job

    return noting


if __name__ == "__main__":
    worker.EventWriter = Saboteur
    Job.model_validate_json = note_job(Job.model_validate_json)
    worker.main(sys.argv[1:])
