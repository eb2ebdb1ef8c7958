import pytest

from scaling.hlo.loops import executions
from scaling.hlo.module import parse


def loop(condition, body, state="(s32[], s32[], f32[8])", name="1"):
    return f"""\
%cond.{name} (s: {state}) -> pred[] {{
  %s.c = {state} parameter(0)
  %i.c = s32[] get-tuple-element(%s.c), index=0
  %n.c = s32[] get-tuple-element(%s.c), index=1
{condition}
}}

%body.{name} (s: {state}) -> {state} {{
  %s.b = {state} parameter(0)
  %i.b = s32[] get-tuple-element(%s.b), index=0
  %n.b = s32[] get-tuple-element(%s.b), index=1
  %x.b = f32[8] get-tuple-element(%s.b), index=2
  %one = s32[] constant(1)
{body}
}}
"""


ENTRY = """\
  %p = f32[8]{{0}} parameter(0)
  %first = s32[] constant({first})
  %bound = s32[] constant({bound})
  %copied = s32[] copy(%first)
  %start = (s32[], s32[], f32[8]) tuple(%copied, %bound, %p)
  ROOT %loop = (s32[], s32[], f32[8]) while(%start), condition=%cond.1, body=%body.1"""


def compares(direction, bound):
    return (
        f"  %c = s32[] constant({bound})\n"
        f"  ROOT %r = pred[] compare(%i.c, %c), direction={direction}"
    )


def adds(step):
    return (
        f"  %step = s32[] constant({step})\n"
        "  %next = s32[] add(%step, %i.b)\n"
        "  ROOT %t = (s32[], s32[], f32[8]) tuple(%next, %n.b, %x.b)"
    )


def trips(program, condition, body, first=0, bound=0):
    text = program(ENTRY.format(first=first, bound=bound), loop(condition, body))
    found = executions(parse(text))
    assert found.of_computation["body.1"] == found.trips["main", "loop"]
    return found.trips["main", "loop"]


@pytest.mark.parametrize(
    ("direction", "bound", "step", "first", "expected"),
    [
        ("LT", 32, 1, 0, 32),
        # the TPU compiler unrolls windowed matrix products by two
        ("LT", 4, 2, 0, 2),
        ("LT", 5, 2, 0, 3),
        ("LE", 5, 2, 1, 3),
        # one trip peeled off: the counter begins at 1
        ("LT", 4, 1, 1, 3),
        ("GT", 0, -1, 7, 7),
        ("GE", 0, -2, 7, 4),
        ("NE", 8, 2, 0, 4),
        ("LT", 0, 1, 5, 0),
    ],
)
def test_trips_from_first_value_step_and_bound(
    program, direction, bound, step, first, expected
):
    condition, body = compares(direction, bound), adds(step)
    assert trips(program, condition, body, first) == expected


def test_the_bound_may_be_part_of_the_state(program):
    condition = "  ROOT %r = pred[] compare(%n.c, %i.c), direction=GT"
    assert trips(program, condition, adds(1), bound=6) == 6


def test_a_counter_is_followed_through_fusions_and_copies(program):
    fused = """\
%fused (a: s32[], b: f32[8]) -> (f32[8], s32[]) {
  %a = s32[] parameter(0)
  %b = f32[8] parameter(1)
  %two = s32[] constant(2)
  %next = s32[] subtract(%a, %two)
  %view = s32[] bitcast(%next)
  ROOT %t = (f32[8], s32[]) tuple(%b, %view)
}

%smaller (a: s32[]) -> pred[] {
  %a.1 = s32[] parameter(0)
  %zero = s32[] constant(0)
  ROOT %r.1 = pred[] compare(%zero, %a.1), direction=LT
}
"""
    condition = "  ROOT %r = pred[] fusion(%i.c), kind=kLoop, calls=%smaller"
    body = """\
  %both = (f32[8], s32[]) fusion(%i.b, %x.b), kind=kLoop, calls=%fused
  %less = s32[] get-tuple-element(%both), index=1
  %x = f32[8] get-tuple-element(%both), index=0
  %start = (s32[], s32[], u32[]) copy-start(%less)
  %done = s32[] copy-done(%start)
  ROOT %t.1 = (s32[], s32[], f32[8]) tuple(%done, %n.b, %x)"""
    text = program(ENTRY.format(first=9, bound=0), fused + loop(condition, body))
    assert executions(parse(text)).trips["main", "loop"] == 5


def test_loops_in_loops_multiply_and_take_bounds_from_outside(program):
    inner = loop(
        "  ROOT %r = pred[] compare(%i.c, %n.c), direction=LT", adds(1), name="2"
    )
    body = """\
  %zero = s32[] constant(0)
  %begin = (s32[], s32[], f32[8]) tuple(%zero, %n.b, %x.b)
  %in = (s32[], s32[], f32[8]) while(%begin), condition=%cond.2, body=%body.2
  %x = f32[8] get-tuple-element(%in), index=2
  %next = s32[] add(%i.b, %one)
  ROOT %t.1 = (s32[], s32[], f32[8]) tuple(%next, %n.b, %x)"""
    text = program(
        ENTRY.format(first=0, bound=5), inner + loop(compares("LT", 3), body)
    )
    found = executions(parse(text))
    assert found.of_computation == {"main": 1, "body.1": 3, "body.2": 15}


def test_a_loop_may_go_on_where_another_ended(program):
    entry = (
        ENTRY.format(first=1, bound=5).replace("ROOT ", "")
        + """
  %i = s32[] get-tuple-element(%loop), index=0
  %n = s32[] get-tuple-element(%loop), index=1
  %again = (s32[], s32[], f32[8]) tuple(%i, %n, %p)
  ROOT %more = (s32[], s32[], f32[8]) while(%again), condition=%cond.2, body=%body.2"""
    )
    second = loop(compares("LT", 10), adds(2), name="2")
    text = program(entry, loop(compares("LT", 4), adds(1)) + second)
    # from 1 by 1 below 4 in three trips, then from 4 by 2 below 10 in three more
    assert executions(parse(text)).trips == {("main", "loop"): 3, ("main", "more"): 3}


def test_a_stated_count_is_taken(program):
    entry = ENTRY.format(first=0, bound=0) + (
        ', backend_config={"known_trip_count":{"n":"12"}}'
    )
    text = program(entry, loop("  ROOT %r = pred[] parameter(1)", adds(1)))
    assert executions(parse(text)).trips["main", "loop"] == 12


@pytest.mark.parametrize(
    ("condition", "body", "why"),
    [
        ("  ROOT %r = pred[] custom-call(%i.c)", adds(1), "no comparison"),
        (compares("LT", 4), adds(0), "adds no constant"),
        (compares("LT", 4), adds(-1), "never reaches"),
        (compares("NE", 5), adds(2), "steps over"),
        (
            "  ROOT %r = pred[] compare(%i.c, %i.c), direction=LT",
            adds(1),
            "its bound is no constant",
        ),
        (
            compares("LT", 4),
            "  %m = s32[] multiply(%i.b, %one)\n"
            "  ROOT %t = (s32[], s32[], f32[8]) tuple(%m, %n.b, %x.b)",
            "adds no constant",
        ),
    ],
)
def test_an_unknown_count_is_an_error_and_never_a_guess(program, condition, body, why):
    with pytest.raises(ValueError, match=f"loop 'loop' is unknown: .*{why}"):
        trips(program, condition, body)


def test_a_counter_that_begins_unknown_is_an_error(program):
    entry = ENTRY.format(first=0, bound=0).replace("copy(%first)", "convert(%p)")
    text = program(entry, loop(compares("LT", 4), adds(1)))
    with pytest.raises(ValueError, match="first value of its counter is no constant"):
        executions(parse(text))


def test_branches_that_decide_about_work_are_refused(program):
    branch = """\
%{name} (a: f32[8,8]) -> f32[8,8] {{
  %a = f32[8,8] parameter(0)
  ROOT %r = f32[8,8] {operation}
}}
"""
    entry = """\
  %p = f32[8,8]{1,0} parameter(0)
  %x = pred[] parameter(1)
  ROOT %c = f32[8,8] conditional(%x, %p, %p), true_computation=%yes, \
false_computation=%no"""
    negate = branch.format(name="no", operation="negate(%a)")
    harmless = branch.format(name="yes", operation="add(%a, %a)")
    assert executions(parse(program(entry, harmless + negate))).trips == {}
    dot = branch.format(name="yes", operation="dot(%a, %a), lhs_contracting_dims={0}")
    with pytest.raises(ValueError, match="conditional 'c' decides whether 'r' runs"):
        executions(parse(program(entry, dot + negate)))
