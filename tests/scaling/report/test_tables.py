import csv
import io

import pytest

from scaling.report.findings import find
from scaling.report.tables import COLUMNS
from scaling.report.tables import SAMPLE_COLUMNS
from scaling.report.tables import point_rows
from scaling.report.tables import write_points
from scaling.report.tables import write_samples


@pytest.fixture
def points(findings):
    return read(lambda file: write_points(findings, file))


def read(write):
    file = io.StringIO()
    write(file)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_points_round_trip_every_number_of_every_curve(findings, points):
    expected = [(curve, point) for curve in findings.curves for point in curve.points]
    assert len(points) == len(expected)
    for row, (curve, point) in zip(points, expected, strict=True):
        assert tuple(row) == COLUMNS
        assert (row["growth"], row["provenance"]) == (curve.growth, curve.provenance)
        for name in ("tokens_per_s", "step_time_low_s", "efficiency", "mfu"):
            value = getattr(point, name)
            assert row[name] == ("" if value is None else repr(value))


def test_what_was_not_measured_is_empty_and_never_zero(points):
    hang = next(row for row in points if row["status"] == "hang")
    assert hang["tokens_per_s"] == hang["step_time_s"] == hang["efficiency"] == ""


def test_a_point_on_no_curve_has_a_row_of_its_own(new_story):
    story = new_story()
    story.run("1/fsdp=2", 16, step_time_s=0.1, repeats=2)
    found = find(story.measurements)
    assert found.curves == ()
    (row,) = read(lambda file: write_points(found, file))
    assert row["kind"] == ""
    assert (row["model"], row["mesh"], row["num_runs"]) == ("tiny", "1/fsdp=2", "2")
    rate = 16 * 128 / float(row["step_time_s"])
    assert float(row["tokens_per_s"]) == pytest.approx(rate)


def test_samples_are_one_row_for_each_block_run_and_process(findings):
    rows = read(lambda file: write_samples(findings.measurements, file))
    blocks = [
        (run.run, number, process, block.steps, elapsed_s)
        for run in findings.measurements
        for number, block in enumerate(run.blocks)
        for process, elapsed_s in enumerate(block.elapsed_s)
    ]
    assert tuple(rows[0]) == SAMPLE_COLUMNS
    assert [
        (
            row["run"],
            int(row["block"]),
            int(row["process"]),
            int(row["steps"]),
            float(row["elapsed_s"]),
        )
        for row in rows
    ] == blocks
    assert {row["process"] for row in rows} == {"0", "1"}


def test_each_point_is_listed_once_with_the_figures_of_its_own_axis(findings):
    rows = point_rows(findings)
    ids = [row.figures.id for row in rows]
    assert len(ids) == len(set(ids)) == len(findings.runs)
    data = next(
        row
        for row in rows
        if row.figures.mesh == "1/data=2" and row.point.regime == "strong"
    )
    # On the `best` curve the same point is estimated from three of its five runs.
    assert data.figures.num_runs == 5


def test_a_point_is_listed_with_its_own_runs_not_those_of_the_other_regime(new_story):
    story = new_story()
    for batch in (16, 32):
        story.run("1/1", batch, step_time_s=0.1, repeats=2)
    story.run("1/1", 16, step_time_s=0.4, repeats=3, regime="weak")
    found = find(story.measurements)
    (curve,) = found.curves
    assert [point.num_runs for point in curve.points] == [5, 2]
    rows = {(r.point.regime, r.point.global_batch_size): r for r in point_rows(found)}
    assert rows["strong", 16].figures.num_runs == 2
    assert rows["weak", 16].figures.num_runs == 3
    assert rows["strong", 16].figures.step_time_s == pytest.approx(0.1, rel=0.1)
    assert rows["weak", 16].figures.step_time_s == pytest.approx(0.4, rel=0.1)


def test_an_impossible_utilisation_is_not_listed_as_measured(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1, repeats=2)
    story.run("1/1", 32, step_time_s=1e-7, repeats=2)
    on_chip = {"chip": "v5e", "compute_dtype": "bfloat16"}
    runs = []
    for number, run in enumerate(story.measurements):
        point = run.point.model_copy(
            update={**on_chip, "seq_len": 64 * (1 + number // 2)}
        )
        runs.append(run.model_copy(update={"point": point, "id": point.id}))
    found = find(runs)
    assert found.curves == ()
    possible, impossible = (row.figures for row in point_rows(found))
    assert 0 < possible.mfu <= 1
    assert impossible.mfu is None


def test_a_reason_goes_with_the_status_it_explains(findings):
    reasons = {row.figures.status: row.reason for row in point_rows(findings)}
    assert reasons["out_of_memory"] == "needs 31.0 GiB, the control group has 24.0 GiB"
    assert reasons["ok"] is None
