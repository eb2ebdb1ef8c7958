"""Document: what `scaling report --json` prints, with the keys of the design alone."""

from scaling.report.findings import Findings
from scaling.report.sections import doubts

VERDICT_KEYS = frozenset(
    {
        "direction",
        "regime",
        "growth",
        "model",
        "chip",
        "outcome",
        "last_good_devices",
        "first_bad_devices",
        "threshold",
        "first_cause",
        "lost_time_s",
        "causes",
        "ended_by",
    }
)
POINT_KEYS = frozenset(
    {
        "id",
        "mesh",
        "num_devices",
        "num_slices",
        "global_batch_size",
        "num_runs",
        "tokens_per_s",
        "step_time_s",
        "step_time_low_s",
        "step_time_high_s",
        "efficiency",
        "efficiency_low",
        "efficiency_high",
        "marginal_efficiency",
        "mfu",
        "status",
    }
)
CURVE_KEYS = frozenset(
    {
        "kind",
        "direction",
        "regime",
        "growth",
        "model",
        "chip",
        "provenance",
        "baseline_id",
    }
)


def report_json(findings: Findings) -> dict[str, object]:
    """Returns `verdict`, `verdicts`, `curves` and `doubts`; scripts rely on these keys.

    Fields that the types have gained since are left out until the design names them.
    """
    return {
        "verdict": findings.verdict,
        "verdicts": [
            each.model_dump(mode="json", include=set(VERDICT_KEYS))
            for each in findings.breakdowns
        ],
        "curves": [
            {
                **each.model_dump(mode="json", include=set(CURVE_KEYS)),
                "points": [
                    point.model_dump(mode="json", include=set(POINT_KEYS))
                    for point in each.points
                ],
            }
            for each in findings.curves
        ],
        "doubts": list(doubts(findings)),
    }
