import dataclasses

import pytest

from meshes.hardware import CHIPS
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.subtorus import Dim
from meshes.subtorus import SubTorus
from meshes.subtorus import line
from scaling.hlo.collectives import exchanges
from scaling.hlo.loops import executions
from scaling.hlo.module import parse
from scaling.hlo.rates import Duration
from scaling.hlo.rates import Rates
from scaling.hlo.rates import price_on
from scaling.hlo.rates import rates_of
from scaling.hlo.rates import slow_gpu
from scaling.hlo.timeline import timeline

MESH = MeshSpec.parse("data=2/fsdp=8")
# A product of [8, 8] is 1024 FLOPs and an array of it 256 bytes.
RATES = Rates(flops_per_s=256.0, hbm_bytes_per_s=256.0)
GROUPS = "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7},{8,9,10,11,12,13,14,15}}, \
use_global_device_ids=true"
RING = ",".join(f"{{{at},{(at + 1) % 8}}}" for at in range(8))
BACK = ",".join(f"{{{(at + 1) % 8},{at}}}" for at in range(8))


def priced(each):
    """8 s within a slice; between slices 1 s of sending and 10 s of latency."""
    if each.span.dcn_size > 1:
        return {"dcn": Duration(1.0, 10.0)}
    return {"ici": Duration(8.0)}


def walk(program, entry, others="", rates=RATES):
    return timeline(parse(program(entry, others)), MESH, rates, priced)


def spent(found):
    assert found.step_time_s == pytest.approx(sum(found.exposed_s.values()))
    return {cause: seconds for cause, seconds in found.exposed_s.items() if seconds}


P = "  %p = f32[8,8] parameter(0)\n"
ON_CHIP = "f32[8,8]{1,0:T(8,128)S(1)}"
DOT = "dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_a_product_takes_the_longer_of_flops_and_bytes(program):
    found = walk(program, f"{P}  ROOT %d = f32[8,8] {DOT}")
    # 1024 FLOPs at 256 a second, and three arrays of a second each
    assert spent(found) == {"compute": 4.0}
    slow = Rates(flops_per_s=256.0, hbm_bytes_per_s=128.0)
    assert spent(walk(program, f"{P}  ROOT %d = f32[8,8] {DOT}", rates=slow)) == {
        "hbm": 6.0
    }


def test_cycles_count_where_a_clock_is_given_and_a_quarter_off_products(program):
    config = ', backend_config={"estimated_cycles":"80"}'
    clock = Rates(flops_per_s=256.0, hbm_bytes_per_s=256.0, cycles_per_s=4.0)
    product = f"{P}  ROOT %d = f32[8,8] {DOT}{config}"
    assert spent(walk(program, product)) == {"compute": 4.0}
    assert spent(walk(program, product, rates=clock)) == {"compute": 20.0}
    other = f"{P}  ROOT %d = f32[8,8] negate(%p){config}"
    assert spent(walk(program, other)) == {"hbm": 2.0}
    assert spent(walk(program, other, rates=clock)) == {"compute": 5.0}


def gather(between):
    return f"""{P}\
  %s = ({ON_CHIP}, {ON_CHIP}) all-gather-start(%p), {GROUPS}, dimensions={{0}}
{between}
  ROOT %g = {ON_CHIP} all-gather-done(%s)"""


def test_a_gather_hides_behind_what_is_scheduled_meanwhile(program):
    found = walk(program, gather(f"  %d = f32[8,8] {DOT}"))
    assert spent(found) == {"compute": 4.0, "ici": 4.0}
    assert found.hidden_s == {"ici": 4.0, "dcn": 0.0}
    several = "\n".join(f"  %d.{at} = f32[8,8] {DOT}" for at in range(3))
    found = walk(program, gather(several))
    assert spent(found) == {"compute": 12.0}
    assert found.hidden_s["ici"] == 8.0


def test_a_synchronous_collective_is_waited_for_at_once(program):
    reduce = f"{P}  ROOT %r = f32[8,8] all-reduce(%p), {GROUPS}, to_apply=%add"
    found = walk(program, reduce)
    assert spent(found) == {"ici": 8.0}
    assert found.hidden_s == {"ici": 0.0, "dcn": 0.0}
    overhead = Rates(
        flops_per_s=256.0, hbm_bytes_per_s=256.0, collective_overhead_s=0.5
    )
    assert spent(walk(program, reduce, rates=overhead)) == {"ici": 8.5}


@pytest.mark.parametrize(("pairs", "seconds"), [(RING, 16.0), (BACK, 8.0)])
def test_permutes_share_a_direction_but_not_a_link(program, pairs, seconds):
    shape = f"({ON_CHIP}, {ON_CHIP}, u32[]{{:S(2)}})"
    entry = f"""\
  %p = {ON_CHIP} parameter(0)
  %a = {shape} collective-permute-start(%p), source_target_pairs={{{RING}}}
  %b = {shape} collective-permute-start(%p), source_target_pairs={{{pairs}}}
  %x = {ON_CHIP} collective-permute-done(%a)
  ROOT %y = {ON_CHIP} collective-permute-done(%b)"""
    assert spent(walk(program, entry)) == {"ici": seconds}


def test_latencies_between_slices_pass_together(program):
    across = GROUPS.replace("{0,1,2,3,4,5,6,7}", "{0,8}").replace(
        "{8,9,10,11,12,13,14,15}", "{1,9}"
    )
    starts = [
        f"  %s.{at} = {ON_CHIP} all-reduce-start(%p), {across}, to_apply=%add"
        for at in range(3)
    ]
    dones = [f"  %d.{at} = {ON_CHIP} all-reduce-done(%s.{at})" for at in range(3)]
    entry = "\n".join([f"  %p = {ON_CHIP} parameter(0)", *starts, *dones])
    # sent one after another, a second each, and 10 s after the last all is there
    found = walk(program, entry)
    assert spent(found) == {"dcn": 13.0}
    assert found.hidden_s["dcn"] == 20.0


def test_on_gpu_collectives_of_both_networks_take_turns(program):
    across = "channel_id=2, replica_groups={{0,8},{1,9}}, use_global_device_ids=true"
    entry = f"""  %p = {ON_CHIP} parameter(0)
  %s.1 = ({ON_CHIP}, {ON_CHIP}) all-gather-start(%p), {GROUPS}, dimensions={{0}}
  %s.2 = {ON_CHIP} all-reduce-start(%p), {across}, to_apply=%add
  %d.1 = {ON_CHIP} all-gather-done(%s.1)
  %d.2 = {ON_CHIP} all-reduce-done(%s.2)"""
    # 8 s within, and between slices a second of sending and 10 s of latency
    assert walk(program, entry).step_time_s == 11.0
    turns = dataclasses.replace(RATES, one_stream=True)
    assert walk(program, entry, rates=turns).step_time_s == 19.0
    assert rates_of(CHIPS["b200"], "bfloat16", estimates=False).one_stream
    assert not rates_of(CHIPS["v5e"], "bfloat16", estimates=False).one_stream


def test_the_slow_end_of_a_gpu_counts_launches(program):
    slow = slow_gpu(RATES, kernel_fraction=0.4)
    # a product at 0.6 of the peak, then a collective of 8 s
    found = walk(program, f"{P}  ROOT %d = f32[8,8] {DOT}", rates=slow)
    assert spent(found) == {"compute": pytest.approx(1024 / (0.6 * 256) + 1e-6)}
    entry = f"  %p = {ON_CHIP} parameter(0)\n"
    entry += f"  ROOT %g = {ON_CHIP} all-gather(%p), {GROUPS}, dimensions={{0}}"
    found = walk(program, entry, rates=slow)
    assert spent(found) == {"ici": pytest.approx(8 + 8.4e-6)}


def test_prefetches_run_beside_and_no_step_beats_its_traffic(program):
    entry = f"""{P}\
  %s = ({ON_CHIP}, f32[8,8], u32[]{{:S(2)}}) copy-start(%p)
  %d = f32[8,8] {DOT}
  ROOT %c = {ON_CHIP} copy-done(%s)"""
    # a second of copying behind four of computing
    assert spent(walk(program, entry)) == {"compute": 4.0}
    fast = Rates(flops_per_s=1e9, hbm_bytes_per_s=256.0)
    # three seconds of the product and one of the copy are four, side by side or not
    assert spent(walk(program, entry, rates=fast)) == {"hbm": 4.0}


def test_loops_count_as_often_as_they_run(program):
    state = "(s32[]{:S(6)}, f32[8,8])"
    loop = f"""\
%condition (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %i = s32[]{{:S(6)}} get-tuple-element(%s), index=0
  %n = s32[]{{:S(6)}} constant(6)
  ROOT %c = pred[]{{:S(6)}} compare(%i, %n), direction=LT
}}

%body (s: {state}) -> {state} {{
  %s.1 = {state} parameter(0)
  %i.1 = s32[]{{:S(6)}} get-tuple-element(%s.1), index=0
  %p = f32[8,8] get-tuple-element(%s.1), index=1
  %two = s32[]{{:S(6)}} constant(2)
  %next = s32[]{{:S(6)}} add(%i.1, %two)
  %r = f32[8,8] all-reduce(%p), {GROUPS}, to_apply=%add
  %d = f32[8,8] {DOT}
  ROOT %t = {state} tuple(%next, %d)
}}
"""
    entry = f"""{P}\
  %zero = s32[]{{:S(6)}} constant(0)
  %t.1 = {state} tuple(%zero, %p)
  ROOT %w = {state} while(%t.1), condition=%condition, body=%body"""
    assert spent(walk(program, entry, loop)) == {"compute": 12.0, "ici": 24.0}


@pytest.mark.parametrize(
    ("name", "chip", "mesh"),
    [
        ("v5e_fsdp2_tensor2", "v5e", "1/fsdp=2,tensor=2"),
        ("v5e_data2_slices", "v5e", "data=2/fsdp=2,tensor=2"),
        ("v7x_fsdp16", "v7x", "1/fsdp=16"),
    ],
)
def test_real_programs_take_longer_by_estimates_than_by_the_roofline(
    golden, name, chip, mesh
):
    mesh, module = MeshSpec.parse(mesh), parse(golden(f"{name}.hlo.gz"))
    price = price_on(CHIPS[chip], mesh, {"fsdp": line(4)})
    times = []
    for estimates in (False, True):
        rates = rates_of(CHIPS[chip], "bfloat16", estimates=estimates)
        found = timeline(module, mesh, rates, price)
        assert found.step_time_s == pytest.approx(sum(found.exposed_s.values()))
        assert min(found.exposed_s.values()) >= 0
        assert (found.exposed_s["dcn"] + found.hidden_s["dcn"] > 0) is (
            mesh.num_slices > 1
        )
        times.append(found.step_time_s)
    assert times[0] < times[1]


def test_the_price_of_joined_axes_is_that_of_their_dims_together(program):
    mesh = MeshSpec.parse("1/data=4,fsdp=4")
    entry = f"""{P}  ROOT %r = f32[8,8] all-reduce(%p), channel_id=1, \
replica_groups={{}}, use_global_device_ids=true, to_apply=%add"""
    module = parse(program(entry))
    (each,) = exchanges(module, mesh, executions(module))
    rings: dict[Axis, SubTorus] = {
        "data": SubTorus((Dim(0, 4, 1, True),)),
        "fsdp": SubTorus((Dim(1, 4, 1, True),)),
    }
    chip = CHIPS["v5p"].model_copy(update={"hop_latency_s": None})
    # 2·(15/16)·256 bytes over two dims of two directions each
    whole = 2 * 15 / 16 * 256 / (4 * chip.ici_link_bytes_per_s)
    assert price_on(chip, mesh, rings)(each)["ici"].busy_s == pytest.approx(whole)


def test_rates_that_are_unknown_are_refused():
    with pytest.raises(ValueError, match="estimates no cycles for 'h100-sxm'"):
        rates_of(CHIPS["h100-sxm"], "bfloat16", estimates=True)
    unknown = CHIPS["v5p"].model_copy(update={"peak_flops_per_s": {}})
    with pytest.raises(ValueError, match="peak in bfloat16 or memory bandwidth"):
        rates_of(unknown, "bfloat16", estimates=False)
