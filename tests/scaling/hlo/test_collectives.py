import pytest

from meshes.spec import MeshSpec
from scaling.hlo.collectives import exchanges
from scaling.hlo.loops import executions
from scaling.hlo.module import parse
from scaling.hlo.spans import Span

FSDP = MeshSpec.parse("1/fsdp=16")
ALL = Span(("fsdp",), 16, 1)
GROUPS = "channel_id=1, replica_groups=[1,16]<=[16], use_global_device_ids=true"


def found(text, mesh=FSDP):
    module = parse(text)
    return exchanges(module, mesh, executions(module))


@pytest.mark.parametrize(
    ("instruction", "kind", "payload"),
    [
        # an array of 8 float32 is the whole, or one part of sixteen
        (f"f32[8] all-reduce(%p), {GROUPS}, to_apply=%add", "all_reduce", 32),
        (f"f32[128] all-gather(%p), {GROUPS}, dimensions={{0}}", "all_gather", 512),
        (f"f32[1] reduce-scatter(%p), {GROUPS}", "reduce_scatter", 32),
        (
            "f32[8] all-to-all(%p), channel_id=1, replica_groups={}",
            "all_to_all",
            512,
        ),
        # several arrays in one
        (
            f"(f32[8], f32[8]) all-reduce(%p, %q), {GROUPS}, to_apply=%add",
            "all_reduce",
            64,
        ),
    ],
)
def test_synchronous_collectives(program, instruction, kind, payload):
    entry = f"""\
  %p = f32[8] parameter(0)
  %q = f32[8] parameter(1)
  ROOT %c = {instruction}"""
    (one,) = found(program(entry))
    assert (one.kind, one.span, one.payload_bytes) == (kind, ALL, payload)
    assert (one.count, one.asynchronous) == (1, False)


def test_a_permute_between_neighbours(program):
    ring = ",".join(f"{{{at},{(at + 1) % 16}}}" for at in range(16))
    entry = f"""\
  %p = f32[8] parameter(0)
  %s = (f32[8], f32[8], u32[], u32[]) collective-permute-start(%p), channel_id=1, \
source_target_pairs={{{ring}}}
  %between = f32[8] negate(%p)
  ROOT %d = f32[8] collective-permute-done(%s)"""
    (one,) = found(program(entry))
    # each device holds a sixteenth of what goes round
    assert (one.kind, one.span, one.payload_bytes) == ("permute", ALL, 32 * 16)
    assert (one.start, one.done) == (1, 3)


@pytest.mark.parametrize(("sync", "asynchronous"), [("true", False), ("false", True)])
def test_what_a_gpu_starts_may_still_be_synchronous(program, sync, asynchronous):
    entry = f"""\
  %p = f32[8] parameter(0)
  %s = f32[8] all-reduce-start(%p), {GROUPS}, to_apply=%add, \
backend_config={{"collective_backend_config":{{"is_sync":{sync}}}}}
  ROOT %d = f32[8] all-reduce-done(%s)"""
    (one,) = found(program(entry))
    assert one.asynchronous is asynchronous


CHAIN = f"""{GROUPS}, dimensions={{0}}, frontend_attributes={{chain_id="5"}}, \
backend_config={{"async_collective_fusion_config":{{"flag_start":"2"}}}}"""

STEPS = f"""\
%begins (a: f32[8]) -> (f32[8], f32[128]) {{
  %a = f32[8] parameter(0)
  %g = f32[128] all-gather(%a), {CHAIN}
  ROOT %s = (f32[8], f32[128]) custom-call(%g), \
custom_call_target="AsyncCollectiveStart"
}}

%goes_on (a: f32[8], b: f32[128]) -> (f32[8], f32[8], f32[128]) {{
  %a.1 = f32[8] parameter(0)
  %b.1 = f32[128] parameter(1)
  %g.1 = f32[128] all-gather(%a.1), {CHAIN}
  %n = f32[8] negate(%a.1)
  ROOT %t = (f32[8], f32[8], f32[128]) tuple(%n, %a.1, %g.1)
}}

%ends (a: f32[8], b: f32[128]) -> f32[128] {{
  %a.2 = f32[8] parameter(0)
  %b.2 = f32[128] parameter(1)
  %g.2 = f32[128] all-gather(%a.2), {CHAIN}
  ROOT %d = f32[128] custom-call(%g.2, %b.2), \
custom_call_target="AsyncCollectiveDone"
}}
"""

CHAINED = """\
  %p = f32[8] parameter(0)
  %start = (f32[8], f32[128]) fusion(%p), kind=kCustom, calls=%begins
  %a = f32[8] get-tuple-element(%start), index=0
  %b = f32[128] get-tuple-element(%start), index=1
  %m = (f32[8], f32[8], f32[128]) fusion(%a, %b), kind=kOutput, calls=%goes_on
  %c = f32[8] get-tuple-element(%m), index=1
  %e = f32[128] get-tuple-element(%m), index=2
  ROOT %done = f32[128] fusion(%c, %e), kind=kCustom, calls=%ends"""


def test_a_chain_of_fusions_is_one_collective(program):
    (one,) = found(program(CHAINED, STEPS))
    assert (one.name, one.kind, one.payload_bytes) == ("start", "all_gather", 512)
    assert (one.start, one.done) == (1, 7)


def test_a_chain_that_nothing_starts_is_refused(program):
    text = program(CHAINED, STEPS.replace("AsyncCollectiveStart", "Other"))
    with pytest.raises(ValueError, match='collectives chain_id="5" go on in fusions'):
        found(text)


def test_a_fused_all_reduce_that_keeps_a_part_is_a_reduce_scatter(program):
    fused = f"""\
%all-reduce-scatter.1 (a: f32[32]) -> f32[2] {{
  %a = f32[32] parameter(0)
  %r = f32[32] all-reduce(%a), {GROUPS}, to_apply=%add
  %i = s32[] constant(0)
  ROOT %s = f32[2] dynamic-slice(%r, %i), dynamic_slice_sizes={{2}}
}}
"""
    entry = """\
  %p = f32[32] parameter(0)
  ROOT %f = f32[2] fusion(%p), kind=kCustom, calls=%all-reduce-scatter.1"""
    (one,) = found(program(entry, fused))
    assert (one.kind, one.payload_bytes) == ("reduce_scatter", 128)
    assert not one.asynchronous


def test_an_offload_to_the_sparse_cores_is_waited_for_after_its_update(program):
    offload = f"""\
%called (a: f32[8]) -> f32[128] {{
  %a = f32[8] parameter(0)
  ROOT %g = f32[128] all-gather(%a), {GROUPS}, dimensions={{0}}
}}, execution_thread="sparsecore"
"""
    entry = """\
  %p = f32[8] parameter(0)
  %s = ((), (), (s32[1]{0:S(2)})) call-start(), to_apply=%called, \
async_execution_thread="sparsecore"
  %u = ((f32[8]), f32[128]) call-update(%s, %p)
  %between = f32[8] negate(%p)
  ROOT %d = f32[128] call-done(%u)"""
    (one,) = found(program(entry, offload))
    assert (one.kind, one.payload_bytes) == ("all_gather", 512)
    assert (one.start, one.done) == (1, 4)


TRANSFER = """\
  %p = f32[8] parameter(0)
  %t = token[] after-all()
  %s = (f32[8], u32[], token[]) send(%p, %t), channel_id=2, is_host_transfer=true, \
frontend_attributes={{_xla_host_transfer_rendezvous="x_0",\
_xla_megascale_target={target},_xla_megascale_transfer_type="{kind}"}}
  %r = (f32[8], u32[], token[]) recv(%t), channel_id=1, is_host_transfer=true, \
frontend_attributes={{_xla_host_transfer_rendezvous="x_0"}}
  %sd = token[] send-done(%s), channel_id=2, is_host_transfer=true
  %between = f32[8] negate(%p)
  ROOT %rd = (f32[8], token[]) recv-done(%r), channel_id=1, is_host_transfer=true"""

SLICES = MeshSpec.parse("data=2,fsdp=2/fsdp=4")


@pytest.mark.parametrize(
    ("target", "kind", "expected", "axes", "size", "payload"),
    [
        ('"{1,2,3,4}x{0:3}"', "ALL_REDUCE", "all_reduce", ("data", "fsdp"), 4, 32),
        (
            "{{100000,200000},{100001,200001},{300000,400000},{300001,400001}}",
            "ALL_GATHER",
            "all_gather",
            ("fsdp",),
            2,
            64,
        ),
        (
            "{{100000,300000},{200000,400000}}",
            "REDUCE_SCATTER",
            "reduce_scatter",
            ("data",),
            2,
            32,
        ),
    ],
)
def test_transfers_between_slices(program, target, kind, expected, axes, size, payload):
    text = program(TRANSFER.format(target=target, kind=kind), devices=4)
    (one,) = found(text, SLICES)
    assert (one.kind, one.span) == (expected, Span(axes, 1, size))
    assert one.payload_bytes == payload
    assert (one.start, one.done) == (2, 6)


def test_an_unknown_transfer_is_refused(program):
    text = program(TRANSFER.format(target='"{1,2}x{0:3}"', kind="MAGIC"), devices=4)
    with pytest.raises(ValueError, match="send 's' transfers 'MAGIC'"):
        found(text, SLICES)


def test_a_send_to_the_host_is_no_collective(program):
    text = program(TRANSFER.format(target='""', kind="X"), devices=16)
    assert found(text.replace("_xla_megascale", "_other")) == ()


def test_on_several_slices_ids_count_within_one(program):
    entry = f"""\
  %p = f32[8] parameter(0)
  ROOT %c = f32[8] all-reduce(%p), {GROUPS.replace("[1,16]<=[16]", "{{0,1},{2,3}}")}"""
    mesh = MeshSpec.parse("data=2/fsdp=2,tensor=2")
    (one,) = found(program(entry, devices=4), mesh)
    assert one.span == Span(("tensor",), 2, 1)


@pytest.mark.parametrize(
    ("instruction", "span"),
    [
        # ids of replicas, of which there is one: its 16 partitions join, or none
        ("all-reduce(%p), channel_id=1, replica_groups={{0}}, to_apply=%add", ALL),
        ("all-reduce(%p), replica_groups={{0}}, to_apply=%add", None),
        # groups of one device exchange nothing
        (
            "all-reduce(%p), channel_id=1, replica_groups=[16,1]<=[16], "
            "use_global_device_ids=true, to_apply=%add",
            None,
        ),
    ],
)
def test_who_takes_part(program, instruction, span):
    entry = f"  %p = f32[8] parameter(0)\n  ROOT %c = f32[8] {instruction}"
    assert [one.span for one in found(program(entry))] == ([span] if span else [])


@pytest.mark.parametrize(
    ("mesh", "instruction", "sentence"),
    [
        ("1/fsdp=8", f"all-reduce(%p), {GROUPS}", "is for 16 devices, mesh 1/fsdp=8"),
        ("1/fsdp=16", "ragged-all-to-all(%p)", "'c' is a ragged-all-to-all"),
        ("1/fsdp=16", f"custom-call(%p), {GROUPS}", "'c' is a custom-call, whose"),
        (
            "1/fsdp=16",
            "collective-permute(%p, %p), source_target_pairs={{0,1}}, "
            "slice_sizes={{4}}",
            "'c' is a collective-permute of slices",
        ),
    ],
)
def test_what_cannot_be_accounted_is_refused(program, mesh, instruction, sentence):
    entry = f"  %p = f32[8] parameter(0)\n  ROOT %c = f32[8] {instruction}"
    with pytest.raises(ValueError, match=sentence):
        found(program(entry), MeshSpec.parse(mesh))
