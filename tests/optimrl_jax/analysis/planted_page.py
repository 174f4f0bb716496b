"""One page with every section filled, from two seeds of a recipe whose every number is known.

Both passes hold the checkpoints `base` (step 10) and `fast` (step 40) with 12 samples a problem, as `planted` has them,
and these peculiarities:

- Samples 1, 5 and 9 of `base` take about 1.5 units, 2, 6 and 10 take 3.5, the others 2.6; the last one of problem 0
  half a unit, so that a single sample of 12 is faster than all references.
- On problem 0 a third of `fast` takes a quarter of a unit, and a third grows with the square of the weights of tests:
  it beats the fastest reference on three tests, ties on one and loses on one. On problem 1 `fast` is `base`: draws. On
  problem 2 it is always wrong. On problem 3 it takes as long as the third reference, and loses.
- The second pass is twice as slow. There `fast` takes one unit more on problem 1 and one less on problem 3, whose tests
  are heavy in the opposite order; on problem 1, the slowest reference times out on one test and is not run on another.
- The runs log 36 and 72 seconds a step, and the first one kept its rollouts (`planted_journal`).
"""

import dataclasses
import functools
import json
import pathlib

import numpy as np
import pytest

from optimrl_jax import analyze
from optimrl_jax.analysis.timing import service_states
from optimrl_jax.arrays import Status
from optimrl_jax.evaluation import records
from tests.optimrl_jax.analysis import planted, planted_journal

SAMPLES = 12
STEPS = {"base": 10, "fast": 40}
SECONDS_A_STEP = (36.0, 72.0)
SLOWDOWNS = (1.0, 2.0)
# Tests of problem 1 on which its slowest reference has no success in the second pass.
LATE_TEST, SKIPPED_TEST = 5, 4
LABELS = ("seed0:base", "seed0:fast", "seed1:base", "seed1:fast")


def base_units():
    """A little more on each problem, so that no two problems tie where offsets cancel."""
    units = np.array([2.6, 1.5, 3.5, 2.6] * (SAMPLES // 4)) + 0.02 * np.arange(planted.PROBLEMS)[:, None]
    units[0, -1] = 0.5
    return np.repeat(units[..., None], len(planted.KIND), axis=-1)


def fast_units(seed):
    units = np.full((planted.PROBLEMS, SAMPLES, len(planted.KIND)), 1.25)
    units[0, 1::4] = 0.25 * planted.WEIGHTS
    units[0, 2::4] = 0.25
    units[1] = base_units()[1] + (seed == 1)
    units[3] = 3 - (seed == 1)
    return units


def weights(seed):
    found = np.tile(planted.WEIGHTS, (planted.PROBLEMS, 1))
    if seed == 1:
        found[3, 1:] = found[3, :0:-1]
    return found


@functools.cache
def evaluation(seed):
    found = planted.evaluation(
        speeds={"base": base_units(), "fast": fast_units(seed)}, steps=STEPS, name=f"s{seed}", recipe={"x": 1},
        seed=seed, slowdown=SLOWDOWNS[seed], samples=SAMPLES, weights=weights(seed),
        wrong={"fast": np.arange(planted.PROBLEMS)[:, None] == 2},
    )  # fmt: skip
    if seed == 1:
        (slowest,) = (
            s for s in found.samples if (s.policy, s.problem_id, s.sample) == (records.REFERENCES, "twin/p1", 3)
        )
        slowest.status[[LATE_TEST, SKIPPED_TEST]] = Status.TIMEOUT, Status.NOT_RUN
        slowest.duration_s[[LATE_TEST, SKIPPED_TEST]] = 10.0, 0.0
    return found


def write_run(run, seconds_a_step):
    """40 steps of which every second loses half of its rollouts; evaluations on held-out problems at 20 and 40."""
    run.mkdir(parents=True)
    rows = [
        {"step": step, "reward": step / 40, "invalid_share": 0.5 * (step % 2)}
        | {"generate_s": 0.5 * seconds_a_step, "execute_s": 0.25 * seconds_a_step, "update_s": 0.25 * seconds_a_step}
        for step in range(1, 41)
    ]
    for step in (20, 40):
        rows[step - 1] |= {"held_out/pass_at_1_p100": step / 100, "held_out/pass_at_1_p30": 0.1}
    # A line that is written again later counts no more.
    rows.insert(0, {"step": 7, "reward": 100.0, "update_s": 1e6})
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@dataclasses.dataclass(frozen=True)
class Page:
    """What was written: its directory, and the record directories that it was made of."""

    directory: pathlib.Path
    records: tuple[pathlib.Path, ...]


def write_page(root: pathlib.Path) -> Page:
    runs = [root / "runs" / name / "grpo" for name in ("steps", "slower")]
    for run, seconds in zip(runs, SECONDS_A_STEP, strict=True):
        write_run(run, seconds)
    planted_journal.write_journal(runs[0])
    directories = [root / f"seed{seed}" for seed in range(2)]
    for seed, directory in enumerate(directories):
        directory.mkdir()
        found = evaluation(seed)
        for policy in found.facts["policies"].values():
            policy["source"] = f"{runs[seed]}@{policy['step']}"
        records.write_evaluation(directory, found)
    flags = [f"--records={','.join(map(str, directories))}", f"--output={root / 'page'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_states, "load_records", lambda directory, split: [planted_journal.PROBLEM])
        assert analyze.main([*flags, f"--runs={','.join(map(str, runs))}"]) == 0
    return Page(root / "page", tuple(directories))
