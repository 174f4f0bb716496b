"""Edge: reads the records of all seeds of a study, asks every claim, and writes table, figure, text and summary."""

import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.analysis.study import Study, open_studies
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.scores import pass_at_tau
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.files import write_json, write_text
from optimrl_jax.study.claims import CLAIMS, Claim, claim_verdict, paper_figures
from optimrl_jax.study.plan import SFT
from optimrl_jax.study.pooled import PooledGain, launch_spread, pooled_gain, stack_seeds

SCORES = ((1, 100), (1, 50), (1, 30), (1, 10), (10, 100), (10, 30))
Shares = Mapping[str, np.ndarray]


class AskedClaim(typing.NamedTuple):
    """A claim with what the study found.

    Attributes:
      claim: that was asked.
      gain: of its row over its rival.
      verdict: as `claims.claim_verdict` says.
    """

    claim: Claim
    gain: PooledGain
    verdict: str


def read_study(directories: Sequence[pathlib.Path]) -> Study:
    """Read the records of all seeds side by side, each ranked within its own timing pass.

    Args:
      directories: of the records, one a seed.

    Raises:
      UserError: where they are of different datasets, or cannot be read.
    """
    studies = open_studies(directories)
    if len(studies) > 1:
        raise UserError(f"{directories[0].parent.parent}: the seeds were evaluated on different datasets")
    return studies[0]


def shares_of(study: Study, *, k: int, tau: float) -> dict[str, np.ndarray]:
    """Compute pass@k at p_tau of every row, `[s, b]`, seeds in the order of their records.

    Rows with fewer samples a problem than k are left out, as are rows that not every seed has.
    """
    values: dict[str, list[np.ndarray]] = {}
    for policy in study.policies:
        if policy.outcome.is_valid.shape[1] >= k:
            values.setdefault(policy.name, []).append(pass_at_tau(policy.outcome, k=k, tau=tau))
    return {row: stack_seeds(found) for row, found in values.items() if len(found) == len(study.passes)}


def gain_of(shares: Shares, row: str, rival: str) -> PooledGain:
    """Compare a row with another, or with the start of both, at one score.

    Args:
      shares: `[s, b]` of every row at that score, with `plan.SFT` among them.
      row: a key.
      rival: another one.
    """
    spread = launch_spread({name: values - shares[SFT] for name, values in shares.items() if name != SFT})
    return pooled_gain(shares[row] - shares[rival], spread=spread, launches=1 if rival == SFT else 2)


def ask_claims(study: Study) -> list[AskedClaim]:
    """Ask every claim whose rows and samples the study has."""
    asked, found = [], {}
    for claim in CLAIMS:
        score = (claim.k, claim.tau)
        shares = found.setdefault(score, shares_of(study, k=claim.k, tau=claim.tau))
        if {claim.row, claim.rival} <= shares.keys():
            gain = gain_of(shares, claim.row, claim.rival)
            asked.append(AskedClaim(claim, gain, claim_verdict(claim, gain)))
    return asked


def write_report(study: Study, output: pathlib.Path, *, facts: Mapping[str, object]) -> list[AskedClaim]:
    """Write `summary.json`, `study.md` and `study.png`.

    Args:
      study: all seeds.
      output: an existing directory.
      facts: what the summary says beside the scores, such as the command.

    Returns:
      The claims, as asked.
    """
    asked = ask_claims(study)
    scores = {(k, tau): shares_of(study, k=k, tau=tau) for k, tau in SCORES}
    rows = [row for row in scores[1, 100] if row != SFT]
    claims = [
        one.claim._asdict() | one.gain._asdict() | {"verdict": one.verdict, "paper": paper_figures(one.claim)}
        for one in asked
    ]
    cells = {
        f"pass@{k} p{tau}": {row: _cell(shares, row) for row in shares}
        for (k, tau), shares in scores.items()
        if SFT in shares
    }
    values = {"seeds": len(study.passes), "problems": len(study.problems), "scores": cells, "claims": claims}
    write_json(output / "summary.json", dict(facts) | values)
    write_text(output / "study.md", _text(asked, cells, study, facts))
    if rows:
        _draw(output / "study.png", scores, rows, study)
    return asked


def _cell(shares: Shares, row: str) -> dict[str, typing.Any]:
    by_seed = [100 * float(np.nanmean(values)) for values in shares[row]]
    cell = {"percent": float(np.mean(by_seed)), "by_seed": by_seed}
    return cell if row == SFT else cell | {"gain": gain_of(shares, row, SFT)._asdict()}


def _text(asked: Sequence[AskedClaim], cells: Mapping[str, Mapping], study: Study, facts: Mapping[str, object]) -> str:
    said = "".join(f"- {name}: {value}\n" for name, value in facts.items())
    scored = ["| row | " + " | ".join(cells) + " |", "|---|" + "---|" * len(cells)]
    for row in next(iter(cells.values())):
        scored.append(f"| {row} | " + " | ".join(_scored(of_score.get(row)) for of_score in cells.values()) + " |")
    claimed = ["| claim | score | paper | gain, points | verdict |", "|---|---|---|---|---|"]
    for claim, gain, verdict in asked:
        paper = " against ".join("not printed" if value is None else f"{value:.1f}" for value in paper_figures(claim))
        measured = f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"
        named = f"{claim.text} ({claim.row}, {claim.rival})"
        claimed.append(f"| {named} | pass@{claim.k} p{claim.tau} | {paper} | {measured} | {verdict} |")
    return (
        f"# Study: {len(study.passes)} seeds, {len(study.problems)} unseen problems\n\n{said}\n"
        "## Claims\n\nGains are paired within seeds and problems; intervals of 95 % count problems and launches.\n"
        "A claim is undecided where its interval holds 0.\n\n" + "\n".join(claimed) + "\n\n"
        "## Scores\n\nPercent, mean over seeds; in brackets the gain over the policy of the same seed that it started "
        "from.\n\n" + "\n".join(scored) + "\n"
    )


def _scored(cell: Mapping | None) -> str:
    if cell is None:
        return ""
    return f"{cell['percent']:.1f}" + (f" ({cell['gain']['mean']:+.1f})" if "gain" in cell else "")


def _draw(path: pathlib.Path, scores: Mapping[tuple[int, int], Shares], rows: Sequence[str], study: Study) -> None:
    caption = (
        f"gain over the SFT policy of the same seed; n = {len(study.problems)} problems, {len(study.passes)} seeds; "
        "bars: 95 % over problems and launches; dots: seeds"
    )
    figure = style.new_figure(9.0, 0.9 + 0.32 * len(rows), caption=caption)
    places = np.arange(len(rows))[::-1]
    for axes, score in zip(figure.subplots(1, 2, sharey=True), ((1, 100), (1, 30)), strict=True):
        shares = scores[score]
        gains = [gain_of(shares, row, SFT) for row in rows]
        axes.errorbar(
            [gain.mean for gain in gains], places, xerr=[gain.half_width for gain in gains], fmt="o",
            color=style.colour(0), capsize=3,
        )  # fmt: skip
        for place, row in zip(places, rows, strict=True):
            of_seeds = 100 * np.nanmean(shares[row] - shares[SFT], axis=1)
            axes.plot(of_seeds, np.full(len(of_seeds), place - 0.22), ".", color=style.colour(1), markersize=4)
        axes.axvline(0, color="0.6", linewidth=0.8)
        axes.set(xlabel=f"gain of pass@{score[0]} at p{score[1]}, points", yticks=places, yticklabels=rows)
        axes.set_ylim(-0.6, len(rows) - 0.4)
    figure.savefig(path, dpi=style.DPI)
