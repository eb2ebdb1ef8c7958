import math

import pytest

from scaling.feasibility import why_infeasible
from scaling.feasibility import why_no_target
from scaling.published_steps import PUBLISHED_STEPS

pytestmark = pytest.mark.fast

BY_ID = {step.id: step for step in PUBLISHED_STEPS}


def test_the_time_of_a_step_by_hand():
    # 16 B parameters by V·D + L·(4·D·256·H + 2·D·F + 2·D) + D, 6 sequences of 2,048
    # tokens a chip, attention in full, 120 TFLOP/s.
    parameters = (
        32_768 * 5_120
        + 32 * (4 * 5_120 * 256 * 32 + 2 * 5_120 * 32_768 + 2 * 5_120)
        + 5_120
    )
    per_token = 6 * parameters + 12 * 32 * 32 * 256 * 2_048
    expected = 6 * 2_048 * per_token / 120e12
    step = BY_ID["maxtext-v5e-16b-1x256"]
    assert step.step_time_s == pytest.approx(expected, rel=1e-12)
    assert step.step_time_s == pytest.approx(10.66, abs=0.005)


def test_causal_tables_count_half_of_attention():
    step = BY_ID["maxtext-v5p-32b-1x64"]
    assert step.step_time_s == pytest.approx(9.916, abs=0.001)


@pytest.mark.parametrize("step", PUBLISHED_STEPS, ids=lambda step: step.id)
def test_every_row_can_be_compiled(step):
    assert why_infeasible(step.point) is None
    assert why_no_target(step.point) is None


@pytest.mark.parametrize("step", PUBLISHED_STEPS, ids=lambda step: step.id)
def test_a_rows_id_says_its_slices(step):
    slices, _, chips = step.id.rpartition("-")[2].partition("x")
    assert step.point.mesh.num_slices == int(slices)
    assert math.prod(step.point.slice_shape) == int(chips)


def test_ids_and_points_are_different():
    assert len(BY_ID) == len(PUBLISHED_STEPS)
    assert len({step.point for step in PUBLISHED_STEPS}) == len(PUBLISHED_STEPS)
