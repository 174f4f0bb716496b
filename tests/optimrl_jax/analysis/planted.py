"""Stored evaluations whose every number is known: a policy twice as fast, a drift, a difficulty effect, planted faults.

Each problem has four references at 1, 2, 3 and 4 times its unit on three optimization tests, and one correctness test.
In the timing pass everything runs 1.5 times as long plus 10 ms (the drift), references and policies alike. Samples of
`base` take 2.5 units: behind two of four references (q = 0.5). Samples of `fast` take 1.25 units: behind one (0.25).
On difficulty 3 the last two samples of four are wrong. `fast` lost one sample of every problem to a fault.
"""

import numpy as np

from optimrl_jax.arrays import Status
from optimrl_jax.evaluation import records
from tests.optimrl_jax.records import record

ALPHA, BETA_S = 1.5, 0.01
UNITS_S = (0.02, 0.03, 0.05, 0.08)
DIFFICULTIES = (1, 1, 3, 3)
SAMPLES = 4
KIND = (0, 2, 2, 2)


def drifted(seconds, slowdown=1.0):
    return slowdown * (ALPHA * np.asarray(seconds) + BETA_S)


def problems():
    found = []
    for number, (unit_s, difficulty) in enumerate(zip(UNITS_S, DIFFICULTIES, strict=True)):
        seconds = np.tile(unit_s * np.arange(1, 5), (len(KIND), 1))
        # The first problem of each difficulty is of one category.
        entry = records.stored_problem(record(name=f"p{number}", duration_s=seconds, test_kind=KIND))
        category = ("graphs", "strings")[number % 2]
        found.append(records.StoredProblem(**vars(entry) | {"difficulty": difficulty, "category": category}))
    return found


def sample(policy, problem, number, *, units, unit_s, is_wrong=False, is_faulted=False, slowdown=1.0):
    status = np.full(len(KIND), Status.SUCCESS, np.int8)
    if is_wrong:
        status[0] = Status.FAILURE
    if is_faulted:
        status[1] = Status.FAULT
    seconds = np.full(len(KIND), drifted(units * unit_s, slowdown), np.float32)
    text = f"# {policy} {number}"
    return records.SampleRecord(policy, problem.id, number, text, status, seconds, 10 * problem.difficulty, is_wrong)


def evaluation(*, speeds=None, steps=None, name="planted", recipe=None, seed=0, slowdown=1.0):
    """Records of policies by name: units of seconds that their samples take; `fast` has a fault in each problem."""
    speeds = speeds or {"base": 2.5, "fast": 1.25}
    samples, stored = [], problems()
    for problem, unit_s in zip(stored, UNITS_S, strict=True):
        for number in range(4):
            samples.append(
                sample(records.REFERENCES, problem, number, units=number + 1, unit_s=unit_s, slowdown=slowdown)
            )
        for policy, units in speeds.items():
            for number in range(SAMPLES):
                is_wrong = problem.difficulty == 3 and number >= 2
                is_faulted = policy == "fast" and number == 0
                state = {"is_wrong": is_wrong, "is_faulted": is_faulted, "slowdown": slowdown}
                samples.append(sample(policy, problem, number, units=units, unit_s=unit_s, **state))
    facts = {
        policy: {
            "source": f"runs/{name}/{policy.partition('@')[0]}" + (f"@{steps[policy]}" if steps else ""),
            "step": steps[policy] if steps else None,
            "written": 1,
            "seed": seed,
            "recipe": recipe,
            "wall_s": None,
        }
        for policy in speeds
    }
    return records.Evaluation(stored, samples, {"key": name, "pass": {"id": name, "begun": "now"}, "policies": facts})
