"""What the runs logged and what their sandbox did: two runs with metrics, the first one with a journal of rollouts."""

import numpy as np

from tests.optimrl_jax.analysis import planted_journal

# After the warm-up of 4 batches 2 of 36 are a burst: a quarter settled, half by the fallback, a quarter by nobody,
# returns of -1 in place of 0.5.
COUNTED, BURST = 36, 2
SHARE = BURST / COUNTED


def tables(page):
    return {
        "training_runs": training_runs(), "held_out": held_out(), "service": service(), "bursts": bursts(),
        "silent_and_bursty": silent_and_bursty(),
    }  # fmt: skip


def training_runs():
    """Rewards 1/40 to 40/40; odd steps lose half; half of the time is sampling, a quarter execution and updates."""
    return [
        {"run": run, "steps": 40, "reward": 20.5 / 40, "invalid_share": 0.25, "generate_cost_share": 0.5,
         "execute_cost_share": 0.25, "judge_cost_share": 0.0, "update_cost_share": 0.25}
        for run in ("steps/grpo", "slower/grpo")
    ]  # fmt: skip


def held_out():
    return [
        {"run": run, "step": step, "pass_at_1_p100": float(step), "pass_at_1_p30": 10.0}
        for run in ("steps/grpo", "slower/grpo")
        for step in (20, 40)
    ]


def service():
    """In batch 0 of the four of the warm-up nothing parsed."""
    return [
        {"run": "steps/grpo", "batches": COUNTED, "service_only_mean": 100 - 75 * SHARE, "service_only_min": 25.0,
         "fallback": 50 * SHARE, "unresolved": 25 * SHARE, "parsed_in_warm_up": 75.0, "parsed_after": 100.0}
    ]  # fmt: skip


def bursts():
    first, last = planted_journal.BURST
    return [
        {"run": "steps/grpo", "first_batch": first, "last_batch": last, "batches": BURST, "service_only_min": 25.0,
         "fallback_peak": 50.0, "unresolved_peak": 25.0, "timeouts_peak": 0.0, "return_in_burst": -1.0,
         "return_of_run": 0.5 - 1.5 * SHARE}
    ]  # fmt: skip


def silent_and_bursty():
    return [
        {"run": "steps/grpo", "service_only_mean": 100 - 75 * SHARE, "service_only_min": 25.0,
         "fallback_mean": 50 * SHARE, "unresolved_mean": 25 * SHARE, "return_mean": 0.5 - 1.5 * SHARE,
         "return_std": 1.5 * np.sqrt(SHARE * (1 - SHARE)), "return_range": 1.5, "correct_mean": 100 * (1 - SHARE)}
    ]  # fmt: skip
