"""A worker without JAX that behaves as a script says, to try the runner with.

    python tests/fake_worker.py SCRIPT --events_fd N

SCRIPT is a JSON file: behaviours by `<mesh> B=<batch>`, `*` for all others; a
behaviour may be a list with one entry for each process. Keys of a behaviour:

    do          ok, failed, signal, exit, hang, never, devour (memory, without
                end), exit_early, hang_at_exit
    after       steps before it does that (default 2)
    before      a phase before whose end it does that instead
    step_s      how long a step takes at least, and is said to take (default 0.002)
    blocks      of 2 steps each (default 3)
    start_s     before its first word
    say         printed to the log before it does that
    megabytes   printed to the log
    failed      fields of the Failed event
    signal      name of the signal with which it ends itself
    code        exit code
    compilations, num_devices, malformed
    ignore_term whether it ignores SIGTERM
    deaf        whether it does not notice the end of its standard input
    children    processes it starts: `same` group or a group of their `own`
    meet        a folder in which `number` workers wait for each other first
    once        a file: where it exists, the worker does well; else it is made
"""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time

PHASES = ("start", "devices", "data", "state", "compile")


class Worker:
    def __init__(self, job: dict, how: dict, events_fd: int):
        self.job = job
        self.how = how
        self.events_fd = events_fd
        self.step = 0

    def send(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}) + "\n"
        os.write(self.events_fd, line.encode())

    def phase(self, name: str) -> None:
        self.send("phase", name=name, at_s=time.monotonic())

    def work(self) -> None:
        self.become_difficult()
        if self.how.get("do") == "never":
            time.sleep(3600)
        for name in PHASES:
            if self.how.get("before") == name:
                self.do(self.how["do"])
            self.phase(name)
            if name == "devices":
                self.say_platform()
        if self.job["task"] == "compile":
            self.do(self.how.get("do", "ok"))
            self.finish_compiling()
            return
        self.warm_up()
        self.phase("warm_up")
        for _ in range(self.how.get("blocks", 3)):
            self.block()
        if self.how.get("malformed"):
            os.write(self.events_fd, b"this is no event\n")
        self.phase("timed")
        self.finish()

    def become_difficult(self) -> None:
        if self.how.get("ignore_term"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not self.how.get("deaf"):
            threading.Thread(target=exit_at_end_of_input, daemon=True).start()
        for kind in self.how.get("children", ()):
            sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
            subprocess.Popen(sleeper, start_new_session=kind == "own")
        time.sleep(self.how.get("start_s", 0))
        if "meet" in self.how:
            self.meet()

    def meet(self) -> None:
        os.makedirs(self.how["meet"], exist_ok=True)
        open(os.path.join(self.how["meet"], self.job["run"]), "w").close()
        while len(os.listdir(self.how["meet"])) < self.how["number"]:
            time.sleep(0.01)

    def say_platform(self) -> None:
        per_process = int(os.environ.get("JAX_NUM_CPU_DEVICES", "16"))
        count = self.job["num_processes"] * per_process
        self.send(
            "platform",
            device_kind="cpu",
            num_devices=self.how.get("num_devices", count),
            versions={},
            flags=dict(os.environ),
        )

    def warm_up(self) -> None:
        for _ in range(self.how.get("after", 2)):
            self.one_step()
            step_s = self.how.get("step_s", 0.002)
            self.send("step", step=self.step, warm_up_s=step_s, loss=6.0)
        self.do(self.how.get("do", "ok"))

    def one_step(self) -> None:
        time.sleep(self.how.get("step_s", 0.002))
        self.step += 1

    def block(self) -> None:
        for _ in range(2):
            self.one_step()
        elapsed_s = 2 * self.how.get("step_s", 0.002)
        self.send("block", steps=2, elapsed_s=elapsed_s, last_step=self.step)

    def do(self, what: str) -> None:
        if "say" in self.how:
            os.write(1, f"{self.how['say']}\n".encode())
        for _ in range(self.how.get("megabytes", 0)):
            os.write(1, b"x" * 999_999 + b"\n")
        if what == "failed":
            self.send("failed", **self.how["failed"])
            sys.exit(1)
        if what == "signal":
            os.kill(os.getpid(), signal.Signals[self.how["signal"]])
        if what == "exit":
            sys.exit(self.how["code"])
        if what == "devour":
            kept = []
            while True:
                kept.append(bytearray(2**24))
        if what == "hang":
            time.sleep(3600)

    def finish_compiling(self) -> None:
        with gzip.open(self.job["hlo_path"], "wt") as file:
            file.write("HloModule fake")
        names = ("arguments", "outputs", "aliases", "temporaries", "code")
        program = {f"{name}_bytes": 1000 for name in names}
        self.send("finished", program={"program_hash": "fake", **program})
        self.phase("finish")

    def finish(self) -> None:
        if self.how.get("do") == "exit_early":
            return
        compilations = self.how.get("compilations", 0)
        self.send("finished", compilations_in_window=compilations, peak_host_bytes=1000)
        self.phase("finish")
        if self.how.get("do") == "hang_at_exit":
            time.sleep(3600)


def exit_at_end_of_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(70)


def main() -> None:
    script, flag, events_fd = sys.argv[1:]
    assert flag == "--events_fd"
    # Unbuffered, as the thread that waits for the end of the input reads on.
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            sys.exit(70)
        line += piece
    job = json.loads(line)
    with open(script) as file:
        behaviours = json.load(file)
    point = job["point"]
    name = f"{point['mesh']} B={point['global_batch_size']}"
    how = behaviours.get(name, behaviours.get("*", {}))
    if isinstance(how, list):
        how = how[job["process_index"]]
    if "once" in how:
        if os.path.exists(how["once"]):
            how = {}
        else:
            open(how["once"], "w").close()
    Worker(job, how, int(events_fd)).work()


if __name__ == "__main__":
    main()
