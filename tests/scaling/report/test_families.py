from scaling.report.families import families
from scaling.report.findings import find


def of_kind(found, kind):
    return [each for each in families(found.judged, found.points) if each.kind == kind]


def test_regimes_are_apart_and_directions_together(findings):
    strong, weak = of_kind(findings, "scaling")
    assert (strong.regime, weak.regime) == ("strong", "weak")
    directions = {
        judged.curve.direction for series in weak.series for judged in series.judged
    }
    assert directions == {"vertical", "horizontal"}


def test_settings_name_the_batch_that_is_fixed_and_what_is_unusual(findings):
    strong, weak = of_kind(findings, "scaling")
    assert strong.settings == "global batch 16, seq_len 128, compute_dtype float32"
    assert weak.settings.startswith("batch 8 per device, ")


def test_measured_and_simulated_of_one_axis_are_one_series(findings):
    strong, _ = of_kind(findings, "scaling")
    data = next(series for series in strong.series if series.label == "data axis")
    provenances = [
        judged.curve.provenance
        for judged in data.judged
        if judged.curve.direction == "vertical"
    ]
    assert provenances == ["measured", "simulated"]


def test_several_batches_are_told_apart_by_their_batch(new_story):
    story = new_story()
    for batch in (16, 32):
        story.run("1/1", batch, step_time_s=0.01 * batch)
        story.run("1/data=2", batch, step_time_s=0.006 * batch)
    (family,) = of_kind(find(story.measurements), "scaling")
    labels = [series.label for series in family.series]
    assert labels == ["data axis, global batch 16", "data axis, global batch 32"]
    assert "batch" not in family.settings


def test_same_axis_from_different_meshes_is_told_apart_by_its_start(new_story):
    story = new_story()
    for mesh in ("1/1", "1/data=2", "1/fsdp=2", "1/data=2,fsdp=2"):
        story.run(mesh, 16, step_time_s=0.1)
    (family,) = of_kind(find(story.measurements), "scaling")
    labels = {series.label for series in family.series}
    assert {"data axis from 1/1", "data axis from 1/fsdp=2"} <= labels


def test_models_settings_and_environments_are_families_of_their_own(new_story):
    old = new_story()
    new = new_story(old.environment.model_copy(update={"code_hash": "f" * 16}))
    for story in (old, new):
        story.run("1/1", 16, step_time_s=0.1)
        story.run("1/data=2", 16, step_time_s=0.06)
    found = find([*old.measurements, *new.measurements])
    environments = [family.environment for family in of_kind(found, "scaling")]
    assert len(environments) == len(set(environments)) == 2


def test_a_family_with_more_series_than_colours_is_split(new_story):
    story = new_story()
    for batch in range(1, 9):
        story.run("1/1", batch * 2, step_time_s=0.1)
        story.run("1/data=2", batch * 2, step_time_s=0.06)
    split = of_kind(find(story.measurements), "scaling")
    assert [(each.part, len(each.series)) for each in split] == [(0, 6), (1, 2)]
    assert [series.number for series in split[1].series] == [0, 1]
