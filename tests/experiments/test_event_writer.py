import os

from experiments import event_writer
from experiments.event_writer import EventWriter
from experiments.protocol import EVENT
from experiments.protocol import Failed
from experiments.protocol import StepEnded


def written(*calls) -> list:
    read, write = os.pipe()
    events = EventWriter(write)
    for call in calls:
        call(events)
    os.close(write)
    with os.fdopen(read) as lines:
        return [EVENT.validate_json(line) for line in lines]


def test_events_arrive_as_they_were_sent_one_a_line():
    sent = [
        StepEnded(step=0, warm_up_s=0.25, loss=6.0),
        Failed(status="error", reason="two\nlines"),
    ]
    assert written(*[lambda w, e=event: w.send(e) for event in sent]) == sent


def test_phases_are_stamped_and_remembered():
    writer = EventWriter(os.open(os.devnull, os.O_WRONLY))
    assert writer.last_phase is None
    writer.phase_ended("state")
    assert writer.last_phase == "state"
    (phase,) = written(lambda w: w.phase_ended("start", at_s=12.5))
    assert (phase.name, phase.at_s) == ("start", 12.5)


def test_a_pipe_that_takes_a_line_in_pieces(monkeypatch):
    write = os.write
    monkeypatch.setattr(event_writer.os, "write", lambda fd, line: write(fd, line[:7]))
    sent = StepEnded(step=3, loss=5.5)
    assert written(lambda w: w.send(sent)) == [sent]
