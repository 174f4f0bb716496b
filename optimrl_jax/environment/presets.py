"""The rows that the paper trained, under the names that its tables give them (Tables 1 to 4).

Each preset holds the fields of `settings.EnvironmentSettings` and `settings.RewardSettings` that the row sets. Rows
whose limit and tolerance the tables leave out use 0.5 s and 10 % (App. D.2); the percent of relative filters is the
share of slow tests that is dropped; "top 30 %" of timeouts is the percentile p_lambda.
"""

import dataclasses
import typing

from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.errors import SettingsError

Fields = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class Preset:
    """What a trained row sets; everything else keeps its default.

    Attributes:
      environment: fields of `settings.EnvironmentSettings`.
      reward: fields of `settings.RewardSettings`.
      grpo: fields of the GRPO settings, such as fewer steps for rows that the paper stopped early.
    """

    environment: Fields
    reward: Fields
    grpo: Fields = dataclasses.field(default_factory=dict)


BINARY: Fields = {"composition": "collapsed_binary"}
BUCKETED: Fields = {"composition": "two_gate_graded", "quality_map": "bucket"}
TIMEOUTS: Fields = {"limit": 0.5, "tolerance": 0.1}


def _row(family: str, *, reward: Fields = BINARY, steps: int | None = None, **fields: typing.Any) -> Preset:
    grpo = {} if steps is None else {"steps": steps}
    return Preset(environment={"family": family} | fields, reward=dict(reward), grpo=grpo)


def _rewards_of(prefix: str, environment: Fields) -> dict[str, Preset]:
    """Build the reward-composition sweep over one environment (Table 3)."""
    return {
        f"{prefix}_{name}": Preset(environment=dict(environment), reward=reward)
        for form in ("collapsed", "two_gate", "blend", "optimization_only", "multitask")
        for name, reward in (
            (f"{form}_binary", {"composition": f"{form}_binary"}),
            (f"{form}_bucketed", {"composition": f"{form}_graded", "quality_map": "bucket"}),
        )
    }


ABS_2S: Fields = {"family": "absolute_filter", "filter_limit": 2.0} | TIMEOUTS
PER_TEST_30: Fields = {"family": "qar_ranked", "threshold": 0.3}

ENVIRONMENT_ROWS: dict[str, Preset] = {
    "standard_rlvr": _row("rlvr", reward={"composition": "correctness_only"}),
    "mc": _row("mc", reward={"composition": "correctness_only"}),
    "mc_10s_timeout": _row("mc_tloc", reward={"composition": "correctness_only"}),
    "mc_optimization_tests": _row("mc_mo", tolerance=0.0),
    **{f"abs_filter_{a:g}s": _row("absolute_filter", filter_limit=a, **TIMEOUTS) for a in (0.1, 0.5, 2.0)},
    **{
        f"length_filter_{name}": _row("length_filter", filter_limit=characters, **TIMEOUTS)
        for name, characters in (("1k", 1e3), ("100k", 1e5), ("10m", 1e7))
    },
    **{f"rel_filter_{r}": _row("relative_filter", filter_limit=float(r), **TIMEOUTS) for r in (30, 50, 80)},
    **{f"abs_timeout_{s:g}s": _row("absolute_timeout", limit=s, tolerance=0.1) for s in (0.5, 2.0)},
    **{f"ranked_worst_p{p}": _row("ranked_timeout", limit=float(p), tolerance=0.1) for p in (20, 50, 80)},
    # Stopped at half the steps: too many groups had no advantage (Table 2, rows with an asterisk).
    **{f"rel_timeout_{p}": _row("relative_timeout", limit=float(p), tolerance=0.1, steps=5_000) for p in (30, 50, 80)},
    "leaderboard_two_gate_bucketed": _row("qp_ranked", reward=BUCKETED),
    **{f"per_test_top_{p}": _row("qar_ranked", threshold=p / 100) for p in (80, 50, 30)},
    "per_test_two_gate_bucketed": _row("qar_ranked", reward=BUCKETED),
}

REWARD_ROWS: dict[str, Preset] = {
    **_rewards_of("abs_2s", ABS_2S),
    **_rewards_of("per_test", PER_TEST_30),
    **{
        f"per_test_two_gate_{name}": Preset(PER_TEST_30, {"composition": "two_gate_graded", "quality_map": quality_map})
        for name, quality_map in (("50_50", "linear"), ("66_33", "range_1_3"), ("75_25", "range_1_2"))
    },
}

# Raw seconds on the tests of standard RLVR, or with all added tests (Table 24).
NAIVE_ROWS: dict[str, Preset] = {
    f"naive_{source}_{duration_map}": _row(family, reward={"composition": f"naive_{source}_{duration_map}"})
    for source, family in (("base", "rlvr"), ("optimization", "mc_mo"))
    for duration_map in ("linear", "log")
}

PRESETS: dict[str, Preset] = ENVIRONMENT_ROWS | REWARD_ROWS | NAIVE_ROWS


# Names that the text of the paper uses for some of its rows.
ROW_ALIASES: dict[str, str] = {
    **{f"ranked_p{p}": f"per_test_top_{p}" for p in (80, 50, 30)},
    "rlvr": "standard_rlvr",
    "mc_tloc": "mc_10s_timeout",
    "mc_mo": "mc_optimization_tests",
    "mcmo": "mc_optimization_tests",
}


def row_named(name: str) -> str:
    """Return the name under which `PRESETS` has a row.

    Args:
      name: a key of `PRESETS`, also with `_` for its points (`abs_filter_0_5s`), or one of `ROW_ALIASES`.

    Raises:
      SettingsError: naming the choices, and the one that is spelt most like `name`.
    """
    spellings = {row.replace(".", "_"): row for row in PRESETS} | {row: row for row in PRESETS} | ROW_ALIASES
    if name not in spellings:
        choices = ", ".join((*PRESETS, *ROW_ALIASES))
        raise SettingsError(f"row = {name!r}: expected one of {choices}{did_you_mean(name, spellings)}")
    return spellings[name]


def preset(name: str) -> Preset:
    """Look up a trained row.

    Args:
      name: any name that `row_named` accepts.

    Raises:
      SettingsError: for an unknown name, listing the choices.
    """
    return PRESETS[row_named(name)]
