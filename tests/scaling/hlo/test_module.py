import time

import pytest

from scaling.hlo.module import parse

# Pallas prints its kernel's metadata over several lines, some beginning with a bracket.
PALLAS = """\
  %p = f32[8]{0} parameter(0)
  %kernel = f32[8]{0:T(128)S(1)} custom-call(%p), \
custom_call_target="tpu_custom_call", frontend_attributes={kernel_metadata={
    "regions": {
      "a": 1
    }
}
},is_spmd_generated="true"}, backend_config={"estimated_cycles":"77"}
  ROOT %out = f32[8]{0} add(%kernel, /*index=1*/%p)"""


def test_attributes_over_several_lines_do_not_end_a_computation(program):
    module = parse(program(PALLAS))
    assert [each.name for each in module.entry] == ["p", "kernel", "out"]
    kernel = module.entry.by_name["kernel"]
    assert kernel.target == "tpu_custom_call"
    assert kernel.estimated_cycles == 77
    assert module.entry.root.operands == ("kernel", "p")
    assert [each.name for each in module.entry.users["p"]] == ["kernel", "out"]


def test_a_thread_of_another_core_ends_like_any_computation(program):
    other = """\
%offload (a: f32[8]) -> f32[8] {
  ROOT %a = f32[8]{0} parameter(0)
}, execution_thread="sparsecore"
"""
    module = parse(program(PALLAS, other))
    assert set(module.computations) == {"offload", "main"}
    assert module.num_partitions == 16


def test_tuples_memory_spaces_and_bytes(program):
    entry = """\
  %p = (bf16[4,2]{1,0:T(8,128)(2,1)}, (f32[], /*index=2*/u32[]{:S(2)})) parameter(0)
  %half = s4[3]{0} parameter(1)
  %none = token[] after-all()
  ROOT %copy-start.1 = ((f32[8]{0}), f32[8]{0:T(128)S(1)}) copy-start(%p)"""
    module = parse(program(entry))
    arrays = module.entry.by_name["p"].results
    assert [each.bytes for each in arrays] == [16, 4, 4]
    assert [each.memory_space for each in arrays] == [0, 0, 2]
    assert arrays[0].shape == (4, 2)
    assert module.entry.by_name["half"].results[0].bytes == 1.5
    assert module.entry.by_name["none"].results[0].bytes == 0
    assert [each.memory_space for each in module.entry.root.results] == [0, 1]


def test_cycles_that_the_compiler_does_not_know_are_none(program):
    entry = """\
  %p = f32[8]{0} parameter(0)
  ROOT %c = f32[8]{0} copy(%p), \
backend_config={"estimated_cycles":"9223372036854775807"}"""
    module = parse(program(entry))
    assert module.entry.root.estimated_cycles is None
    assert module.entry.by_name["p"].estimated_cycles is None


def test_called_computations_in_every_spelling(program):
    entry = """\
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused.1, metadata={op_name="x"}
  %b = f32[8]{0} while(%p), condition=%cond.1, body=%body.1..clone
  %c = f32[8]{0} conditional(%p), branch_computations={%one, %two}
  ROOT %d = f32[8]{0} custom-call(%p), custom_call_target="t", \
called_computations={%three}"""
    calls = {each.name: each.called for each in parse(program(entry)).entry}
    assert calls == {
        "p": (),
        "a": ("fused.1",),
        "b": ("cond.1", "body.1..clone"),
        "c": ("one", "two"),
        "d": ("three",),
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("HloModule a, is_scheduled=true\n", "no ENTRY computation"),
        ("HloModule a\n\nENTRY %m (p: f32[]) -> f32[] {\n}\n", "is not scheduled"),
    ],
)
def test_what_is_no_compiled_program_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse(text)


def test_a_called_computation_that_is_missing_is_named(program):
    entry = "  ROOT %p = f32[8]{0} fusion(%p), kind=kLoop, calls=%gone"
    module = parse(program(entry))
    with pytest.raises(ValueError, match="computation 'gone' is called but not in"):
        module.called(module.entry.root)


def test_an_unknown_element_type_is_refused_where_its_bytes_matter(program):
    module = parse(program("  ROOT %p = x7[8]{0} parameter(0)"))
    with pytest.raises(ValueError, match="element type 'x7' is not one of"):
        _ = module.entry.root.results[0].bytes


def test_parsing_takes_time_in_proportion_to_the_text(program):
    # Generous, since the machine may be busy: quadratic time would be 16-fold.
    line = "  %a.{0} = f32[8]{{0}} fusion(%p), kind=kLoop, calls=%fused, metadata={{x}}"

    def seconds(count):
        text = program("\n".join(line.format(at) for at in range(count)))
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            parse(text)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(8000) < 10 * seconds(2000)
