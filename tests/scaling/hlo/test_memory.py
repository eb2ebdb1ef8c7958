import pytest

from scaling.hlo.memory import Traffic
from scaling.hlo.module import parse

FUSED = """\
%slices (w: f32[4,8], i: s32[]) -> f32[8] {
  %w = f32[4,8] parameter(0)
  %i = s32[] parameter(1)
  %z = s32[] constant(0)
  %s = f32[1,8] dynamic-slice(%w, %i, %z), dynamic_slice_sizes={1,8}
  ROOT %flat = f32[8] bitcast(%s)
}

%uses (w: f32[4,8], i: s32[]) -> f32[8] {
  %w.1 = f32[4,8] parameter(0)
  %i.1 = s32[] parameter(1)
  %inner = f32[8] fusion(%w.1, %i.1), kind=kLoop, calls=%slices
  ROOT %twice = f32[8] add(%inner, %inner)
}

%updates (w: f32[4,8], u: f32[1,8], i: s32[]) -> (f32[4,8], f32[8]) {
  %w.2 = f32[4,8] parameter(0)
  %u = f32[1,8] parameter(1)
  %i.2 = s32[] parameter(2)
  %new = f32[4,8] dynamic-update-slice(%w.2, %u, %i.2, %i.2)
  %out = f32[8] bitcast(%u)
  ROOT %t = (f32[4,8], f32[8]) tuple(%new, %out)
}
"""

ENTRY = """\
  %w = f32[4,8]{{1,0}} parameter(0)
  %u = f32[1,8]{{1,0}} parameter(1)
  %i = s32[]{{:S(6)}} parameter(2)
  %v = f32[4,8]{{1,0:T(8,128)S(1)}} parameter(3)
  ROOT %x = {}"""


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("f32[4,8]{1,0} negate(%w)", 256),
        # arrays in on-chip memory cost nothing
        ("f32[4,8]{1,0} negate(%v)", 128),
        ("f32[4,8]{1,0:T(8,128)S(1)} negate(%v)", 0),
        ("f32[8]{0} bitcast(%u)", 0),
        # a slice costs what it takes, an update what it changes
        ("f32[1,8]{1,0} dynamic-slice(%w, %i, %i)", 64),
        ("f32[4,8]{1,0} dynamic-update-slice(%w, %u, %i, %i)", 64),
        ("f32[8]{0} fusion(%w, %i), kind=kLoop, calls=%slices", 64),
        ("f32[8]{0} fusion(%w, %i), kind=kLoop, calls=%uses", 64),
        ("f32[8]{0} fusion(%v, %i), kind=kLoop, calls=%uses", 32),
        # the update is read, written into w and handed on as a view of itself
        (
            "(f32[4,8]{1,0}, f32[8]{0}) fusion(%w, %u, %i), kind=kLoop, calls=%updates",
            64,
        ),
        # to on-chip memory and back; the source is listed among the results
        ("(f32[4,8]{1,0:S(1)}, f32[4,8]{1,0}, u32[]{:S(2)}) copy-start(%w)", 128),
        ("(f32[4,8]{1,0}, f32[4,8]{1,0:S(1)}, u32[]{:S(2)}) copy-start(%v)", 128),
        ("((f32[4,8]{1,0}), f32[1,8]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%w)", 32),
        ("f32[4,8]{1,0:S(1)} copy-done(%w)", 0),
        # a quarter to 4 devices: read the part, write the whole
        ("(f32[1,8]{1,0}, f32[4,8]{1,0}) all-gather-start(%u)", 32 + 128),
        ("f32[4,8]{1,0} all-reduce(%w)", 256),
        # on TPU the result alone, on GPU behind the operand
        ("f32[4,8]{1,0} all-reduce-start(%w)", 256),
        ("((f32[4,8]{1,0}), f32[4,8]{1,0}) all-reduce-start(%w)", 256),
        (
            "((f32[4,8]{1,0}, s32[]), f32[8]{0}, u32[]) fusion-start(%w, %i), "
            "kind=kLoop, calls=%slices",
            64,
        ),
        ('f32[4,8]{1,0} custom-call(), custom_call_target="AllocateBuffer"', 0),
        ('f32[4,8]{1,0} custom-call(%w), custom_call_target="tpu_custom_call"', 256),
    ],
)
def test_the_least_bytes_of_an_instruction(program, instruction, expected):
    module = parse(program(ENTRY.format(instruction), FUSED))
    assert Traffic(module).hbm_bytes(module.entry, module.entry.root) == expected
