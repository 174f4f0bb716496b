"""What the paper says of its rows, as comparisons that a study can ask. Pure data and arithmetic.

A claim compares two rows, or a row with its start, at one score. It holds where the whole interval lies on the side
that the paper's figures lie on; it does not hold where the whole interval lies on the other side; between them it is
open.
"""

import typing

from optimrl_jax.environment.paper_results import PERCENTILES, PRINTED_ROWS
from optimrl_jax.study.plan import SFT
from optimrl_jax.study.pooled import PooledGain

PAPER_MODEL = "qwen7b"
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"


class Claim(typing.NamedTuple):
    """One comparison.

    Attributes:
      text: what is claimed, in words.
      row: the row that it is about.
      rival: the row that it is compared with, or `plan.SFT`.
      tau: percent, of p_tau.
      k: of pass@k.
      expects: "more", "less", or "no less": the row is not clearly below its rival.
    """

    text: str
    row: str
    rival: str
    tau: int
    k: int = 1
    expects: typing.Literal["more", "less", "no less"] = "more"


RLVR, MC, MCMO, TIMEOUT, RANKED = (
    "standard_rlvr", "mc", "mc_optimization_tests", "abs_timeout_0.5s", "per_test_top_30",
)  # fmt: skip
CLAIMS = (
    Claim("correctness tests alone improve correctness", MC, SFT, 100),
    Claim("more correctness tests help correctness over standard RLVR", MC, RLVR, 100),
    Claim("added optimization tests make programs a little faster", MCMO, RLVR, 30),
    Claim("an absolute timeout makes programs faster than added tests do", TIMEOUT, MCMO, 30),
    Claim("ranking makes programs faster than added tests do", RANKED, MCMO, 30),
    Claim("ranking makes programs faster than they began", RANKED, SFT, 30),
    Claim("ranking loses no correctness over where it began", RANKED, SFT, 100, 1, "no less"),
    Claim("nor the problems that ten samples solve", RANKED, SFT, 100, 10, "no less"),
    Claim("ranking loses no correctness over standard RLVR", RANKED, RLVR, 100, 1, "no less"),
    Claim("a binary collapsed reward is faster than a bucketed one", RANKED, "per_test_collapsed_bucketed", 30),
    Claim("a binary two-gate reward is faster than a bucketed one", "per_test_two_gate_binary",
          "per_test_two_gate_bucketed", 30),
    Claim("a collapsed reward is faster than two gates", RANKED, "per_test_two_gate_binary", 30),
    Claim("a blend gives up correctness", "per_test_blend_binary", RANKED, 100, 1, "less"),
    Claim("and so does a graded blend", "per_test_blend_bucketed", RANKED, 100, 1, "less"),
    Claim("two streams of rewards give up correctness", "per_test_multitask_binary", RANKED, 100, 1, "less"),
    Claim("speed alone ends in wrong programs", "per_test_optimization_only_binary", SFT, 100, 1, "less"),
)  # fmt: skip


def claim_verdict(claim: Claim, gain: PooledGain) -> str:
    """Say whether a claim holds: `HOLDS`, `FAILS` or `OPEN`.

    Args:
      claim: with the side that is expected.
      gain: of its row over its rival.
    """
    if claim.expects == "no less":
        return FAILS if gain.high < 0 else HOLDS
    low, high = (gain.low, gain.high) if claim.expects == "more" else (-gain.high, -gain.low)
    return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def paper_figures(claim: Claim) -> tuple[float | None, float | None]:
    """Look up what the paper prints for both rows of a claim, in percent; None where it prints nothing."""
    return _printed(claim.row, claim), _printed(claim.rival, claim)


def _printed(row: str, claim: Claim) -> float | None:
    found = PRINTED_ROWS[PAPER_MODEL].get(row)
    shares = found and (found.pass_at_1 if claim.k == 1 else found.pass_at_10)
    return shares[PERCENTILES.index(claim.tau)] if shares else None
