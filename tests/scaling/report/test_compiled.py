"""Compiled runs in every part of the report, apart from measured ones beside them."""

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from scaling.report.document import report_json
from scaling.report.families import families
from scaling.report.findings import find
from scaling.report.marks import LOOKS
from scaling.report.panels import scaling_figure
from scaling.report.terminal import print_report
from scaling.report.write import write_report

PLAN = {
    "1/fsdp=16": {"compute": 1.0, "ici": 0.01},
    "1/fsdp=32": {"compute": 0.5, "ici": 0.03},
    "1/fsdp=64": {"compute": 0.25, "hbm": 0.05, "ici": 0.15},
    "data=2/fsdp=16": {"compute": 0.5, "dcn": 0.02},
    "data=4/fsdp=16": {"compute": 0.25, "dcn": 0.2},
}


@pytest.fixture(scope="module")
def findings(lab, point):
    runs = lab.compiled(PLAN, chip="v5p")
    for mesh in ("1/fsdp=8", "1/fsdp=128"):
        failed = point(mesh=mesh, chip="v5p")
        runs.append(lab.failed(failed, "out_of_memory", provenance="compiled"))
    runs += lab.scaled({"1/fsdp=16": 1, "1/fsdp=32": 0.95}, chip="v5p")
    return find(runs, predictions=lab.predictions)


@pytest.fixture(scope="module")
def paths(findings, tmp_path_factory):
    return write_report(findings, tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def page(paths):
    return Path(paths.page).read_text(encoding="utf-8")


def printed(findings):
    file = io.StringIO()
    print_report(findings, Console(file=file, width=80, highlight=False))
    return file.getvalue()


def test_the_verdict_has_both_provenances(findings):
    assert findings.verdict.startswith("tiny on v5p, vertical (strong): no break")
    assert "tiny compiled for v5p, vertical (strong): stops paying" in findings.verdict
    assert "tiny compiled for v5p, horizontal (strong): stops" in findings.verdict


def test_the_terminal_has_band_utilisation_and_waiting_at_80_columns(findings):
    text = printed(findings)
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.strip() for line in text.splitlines()]
    title = lines.index("vertical, strong, ici:fsdp: tiny on v5p (compiled)")
    header, *rows = (line.split() for line in lines[title + 1 : title + 7])
    assert header == ["devices", "mesh", "step", "(band)", "efficiency", "MFU", "waits"]
    assert rows[0] == ["8", "1/fsdp=8", "out_of_memory", "–", "–", "–"]
    step, efficiency = ["450", "(405–500)", "ms"], ["0.56", "[0.52,", "0.60]"]
    shares = ["50.0", "%", "33.3", "%"]
    assert rows[3] == ["64", "1/fsdp=64", *step, *efficiency, *shares]
    assert rows[4][:3] == ["128", "1/fsdp=128", "out_of_memory"]
    assert " ".join(text.split()).endswith(findings.verdict)


def test_the_document_names_the_cause_and_keeps_its_keys(findings):
    document = json.loads(json.dumps(report_json(findings), allow_nan=False))
    compiled = [v for v in document["verdicts"] if v["causes"] is not None]
    assert [(v["direction"], v["first_cause"]) for v in compiled] == [
        ("vertical", "ici"),
        ("horizontal", "dcn"),
    ]
    for verdict in compiled:
        total = sum(verdict["causes"].values())
        assert total == pytest.approx(verdict["lost_time_s"])
    assert compiled[0]["ended_by"] == "out_of_memory"


def test_the_csv_has_what_a_step_waits_for(findings, paths):
    with Path(paths.points).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    by_provenance = {
        (row["mesh"], row["provenance"], row["growth"]): row for row in rows
    }
    row = by_provenance["1/fsdp=64", "compiled", "ici:fsdp"]
    assert float(row["exposed_ici_s"]) == 0.15
    assert float(row["exposed_dcn_s"]) == 0
    assert float(row["step_time_low_s"]) == pytest.approx(0.9 * 0.45)
    assert by_provenance["1/fsdp=16", "measured", "ici:fsdp"]["exposed_ici_s"] == ""


def test_marks_of_both_provenances_share_a_series_and_differ_in_look(findings):
    compiled, measured = LOOKS["compiled"], LOOKS["measured"]
    assert (compiled.filled, compiled.dash) != (measured.filled, measured.dash)
    assert compiled.meaning == (
        "predicted from the program of the real compiler, not measured"
    )
    (family,) = families(findings.judged, findings.points)
    figure = scaling_figure(family, name="x", reasons=findings.reasons, threshold=0.8)
    legend = {(series.label, word) for series, word in figure.legend}
    assert ("fsdp axis", "measured") in legend
    assert ("fsdp axis", "compiled") in legend
    words = [m.text for row in figure.rows for p in row for m in p.marks]
    assert any(
        "step 450 (405–500) ms" in text
        and "MFU 50.0 %, 33.3 % waiting for networks" in text
        and text.endswith("compiled")
        for text in words
    )


def test_the_page_says_what_compiled_is_and_shows_its_figures(page):
    assert LOOKS["compiled"].meaning in page
    assert "they are the band of the prediction" in page
    assert (
        '<span class="whole">ici 148 ms</span>, <span class="whole">hbm 50 ms' in page
    )
    assert '<th class="n">waits for networks</th>' in page
    assert "<th>lost to</th>" in page
    assert '<td><span class="whole">dcn 200 ms</span></td>' in page
    assert "<code>1/fsdp=16</code>, global batch 64" in page
    assert "<code>1/fsdp=8</code>, global batch 64" not in page


def test_what_the_prediction_does_not_know_is_a_doubt(lab):
    runs = lab.compiled({"1/fsdp=2": {"compute": 1.0}, "1/fsdp=4": {"compute": 0.5}})
    blind = {
        key: each.model_copy(update={"unpriced": ("mosaic",)})
        for key, each in lab.predictions.items()
    }
    doubts = report_json(find(runs, predictions=blind))["doubts"]
    assert doubts == [
        "the FLOPs of the custom call 'mosaic' are not known, so the step times of 2 "
        "compiled points are too short"
    ]


def test_a_report_of_compiled_failures_alone_is_whole(lab, point, tmp_path):
    runs = [
        lab.failed(point(mesh=mesh), "out_of_memory", provenance="compiled")
        for mesh in ("1/fsdp=2", "1/fsdp=4")
    ]
    found = find(runs)
    write_report(found, tmp_path)
    assert found.verdict.startswith("No verdict")
    assert "out_of_memory" in printed(found)
