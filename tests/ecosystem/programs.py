"""A policy over whole programs, and the problems they solve: what a trainer can learn in a few steps on a CPU.

Every program is one token, so that a completion of one token is a program, and a policy of random weights tries all of
them. Standard library and this package's integrations alone: it runs in environments of other trainers.
"""

from optimrl_jax.integrations import SpeedReward
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.settings import Settings
from tests.optimrl_jax import records

RIGHT = "print(2 * int(input()))"
SLOW = "import time; time.sleep(0.2); print(2 * int(input()))"
PROGRAMS = (
    RIGHT,
    SLOW,
    "print(0)",
    "print(int(input()))",
    "print('two')",
    "x = input()",
    "raise SystemExit(1)",
    "print(",
)
RECORDS = [records.record(name=name) for name in ("a", "b")]
SPECIAL = ("<pad>", "<end>", "<unknown>")
STEPS = 12
ROLLOUTS = 16


def vocabulary() -> list[str]:
    """Every token: special ones, statements, programs."""
    return [*SPECIAL, *(record.statement for record in RECORDS), *PROGRAMS]


def open_reward() -> SpeedReward:
    """Return the ranked, two-gate reward over the problems, with programs of this file alone on this machine."""
    values = {
        "environment": {"family": "qp_ranked", "threshold": 0.3},
        "reward": {"composition": "two_gate_binary"},
        "sandbox": {"address": "local", "workers": 2},
    }
    return SpeedReward(RECORDS, freeze(Settings, values))
