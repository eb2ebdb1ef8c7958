"""Whatever is stored a report comes out: each kind of runs alone and beside others."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from rich.console import Console

from scaling.measurement import STATUSES
from scaling.report import write
from scaling.report.document import report_json
from scaling.report.findings import find
from scaling.report.projection import Projection
from scaling.report.terminal import print_report
from scaling.report.write import write_report

NOTHING = Projection(judged=(), points={})
FAILED = [status for status in STATUSES if status != "ok"]
HERE: dict[str, str | None] = {}
BLIND: dict[str, str | None] = {"device_kind": None}
ELSEWHERE: dict[str, str | None] = {"device_kind": "some GPU"}


def good(*meshes, batch=16, **fields):
    shared = {"batch": batch, "step_time_s": 0.1, "repeats": 3, "environment": HERE}
    return [{**shared, "mesh": mesh, **fields} for mesh in meshes]


def bad(status, *meshes, **fields):
    why = {"status": status, "reason": "why", "repeats": 1, "step_time_s": None}
    return good(*meshes, **why, **fields)


BOTH = ("1/1", "1/data=2", "data=2/1")
KINDS = {
    "nothing": [],
    "one point": good("1/1"),
    "one run": good("1/1", repeats=1),
    "one run a point": good(*BOTH, repeats=1),
    "one core": good("1/1") + good("1/data=4", provenance="simulated", repeats=1),
    "only simulated": good(*BOTH, provenance="simulated"),
    "one simulated": good("1/data=4", provenance="simulated"),
    "only a load": good("1/1") + good("1/1", batch=32),
    "a simulated load": good("1/1", provenance="simulated")
    + good("1/1", batch=32, provenance="simulated"),
    "a failed load": bad("error", "1/1") + good("1/1", batch=32),
}
for each in FAILED:
    KINDS[f"only {each}"] = bad(each, *BOTH)
    KINDS[f"{each} beside good ones"] = good("1/1", "1/data=2") + bad(each, "1/data=4")
for each in ("wrong_platform", "out_of_memory"):
    elsewhere = bad(each, *BOTH, environment=ELSEWHERE)
    KINDS |= {
        f"one {each}": bad(each, "1/1"),
        f"{each} elsewhere": elsewhere,
        f"{each} before a device": bad(each, *BOTH, environment=BLIND),
        f"{each} elsewhere, good ones here": good(*BOTH) + elsewhere,
        f"{each} at the baseline": bad(each, "1/1") + good("1/data=2"),
        f"{each} weakly": good(*BOTH) + bad(each, "1/1", "1/data=2", regime="weak"),
    }


def found_in(runs, new_story):
    made = []
    for fields in runs:
        here = new_story().environment
        story = new_story(here.model_copy(update=fields["environment"]))
        story.run(**{name: fields[name] for name in fields if name != "environment"})
        made += story.measurements
    return find(made)


def printed(found):
    file = io.StringIO()
    print_report(found, Console(file=file, width=80, highlight=False))
    return file.getvalue()


def complete(found, folder):
    """Writes the report and checks that each of its parts is there and whole."""
    paths = write_report(found, folder)
    page = Path(paths.page).read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert "Undefined" not in page
    with Path(paths.points).open(encoding="utf-8", newline="") as file:
        ids = {row["id"] for row in csv.DictReader(file)}
    assert ids == {run.id for run in found.measurements}
    assert Path(paths.samples).read_text(encoding="utf-8").count("\n") >= 1
    assert all(Path(path).stat().st_size > 500 for path in paths.pictures)
    drawn = {kind for path in paths.pictures for kind in [Path(path).suffix]}
    assert drawn == ({".svg", ".png"} if found.curves else set())
    json.dumps(report_json(found), allow_nan=False)
    assert " ".join(printed(found).split()).endswith(found.verdict)
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_subset_gives_a_whole_report(
    kind, new_story, tmp_path, monkeypatch
):
    monkeypatch.setattr(write, "project", lambda _: NOTHING)
    found = found_in(KINDS[kind], new_story)
    page = complete(found, tmp_path)
    compared = any(p.efficiency is not None for c in found.curves for p in c.points)
    assert ("No verdict: " in found.verdict) == (not compared)
    assert ("No verdict:" in page) == (not compared)
    assert ("Efficiency, vertical" in page) == compared


def test_failures_on_another_platform_do_not_silence_the_results(new_story):
    found = found_in(KINDS["wrong_platform elsewhere, good ones here"], new_story)
    assert "keeps" in found.verdict
    assert "no point has a result" not in found.verdict


any_run = st.fixed_dictionaries(
    {
        "mesh": st.sampled_from(["1/1", "1/data=2", "1/fsdp=2", "data=2/1"]),
        "batch": st.sampled_from([8, 16]),
        "status": st.sampled_from(STATUSES),
        "regime": st.sampled_from(["strong", "weak"]),
        "provenance": st.sampled_from(["measured", "simulated"]),
        "repeats": st.integers(1, 3),
        "step_time_s": st.sampled_from([None, 0.05, 0.1, 0.2]),
        "environment": st.sampled_from([HERE, BLIND, ELSEWHERE]),
    }
)


# The fixture is a class, which no example changes.
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(runs=st.lists(any_run, max_size=8))
def test_any_mixture_gives_a_whole_report(runs, new_story, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "project", lambda _: NOTHING)
        complete(found_in(runs, new_story), tmp_path_factory.mktemp("any"))
