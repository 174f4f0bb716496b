"""Stored evaluations whose every number is known: a policy twice as fast, a drift, a difficulty effect, planted faults.

Each problem has one correctness test and five optimization tests, of which the n-th is n times as heavy. Its four
references take 1, 2, 3 and 4 times its unit. In the timing pass everything runs 1.5 times as long plus 10 ms (the
drift), references and policies alike. Samples of `base` take 2.5 units: behind two of four references (q = 0.5).
Samples of `fast` take 1.25 units: behind one (0.25). On difficulty 3 the last two samples of four are wrong. `fast`
lost one sample of every problem to a fault.
"""

import numpy as np

from optimrl_jax.arrays import Status
from optimrl_jax.evaluation import records
from tests.optimrl_jax.records import record

ALPHA, BETA_S = 1.5, 0.01
UNITS_S = (0.02, 0.03, 0.05, 0.08)
DIFFICULTIES = (1, 1, 3, 3)
CATEGORIES = ("graphs", "strings", "graphs", "strings")
SAMPLES = 4
KIND = (0, 2, 2, 2, 2, 2)
WEIGHTS = np.array((1, 1, 2, 3, 4, 5))
CHARACTERS = 50 * WEIGHTS
PROBLEMS = len(UNITS_S)


def drifted(seconds, slowdown=1.0):
    return slowdown * (ALPHA * np.asarray(seconds) + BETA_S)


def problems():
    found = []
    for number, unit_s in enumerate(UNITS_S):
        seconds = unit_s * np.outer(WEIGHTS, np.arange(1, 5))
        entry = records.stored_problem(record(name=f"p{number}", duration_s=seconds, test_kind=KIND))
        changed = {"difficulty": DIFFICULTIES[number], "category": CATEGORIES[number], "characters": CHARACTERS}
        found.append(records.StoredProblem(**vars(entry) | changed))
    return found


def sample(policy, problem, number, *, seconds, is_wrong=False, is_faulted=False):
    status = np.full(len(KIND), Status.SUCCESS, np.int8)
    if is_wrong:
        status[0] = Status.FAILURE
    if is_faulted:
        status[1] = Status.FAULT
    tokens = 10 * problem.difficulty + number
    text = f"# {policy} {number}"
    return records.SampleRecord(policy, problem.id, number, text, status, seconds.astype(np.float32), tokens, is_wrong)


def evaluation(
    *, speeds=None, steps=None, name="planted", recipe=None, seed=0, slowdown=1.0, samples=SAMPLES, wrong=None,
    weights=None,
):  # fmt: skip
    """Records of policies by name: units of seconds that their samples take; `fast` has a fault in each problem.

    Speeds are broadcast to [problems, samples, tests], and `wrong` ({policy: more samples that are}) to [problems,
    samples]; `weights` [problems, tests] says how heavy the tests are in this pass.
    """
    speeds = speeds or {"base": 2.5, "fast": 1.25}
    weights = np.broadcast_to(WEIGHTS if weights is None else weights, (PROBLEMS, len(KIND)))
    found, stored = [], problems()
    for place, (problem, unit_s) in enumerate(zip(stored, UNITS_S, strict=True)):
        for number in range(4):
            seconds = drifted((number + 1) * (unit_s * weights[place]), slowdown)
            found.append(sample(records.REFERENCES, problem, number, seconds=seconds))
        for policy, units in speeds.items():
            own = np.broadcast_to(units, (PROBLEMS, samples, len(KIND)))[place]
            also_wrong = np.broadcast_to((wrong or {}).get(policy, False), (PROBLEMS, samples))[place]
            for number in range(samples):
                is_wrong = bool(also_wrong[number]) or (problem.difficulty == 3 and number % SAMPLES >= 2)
                state = {"is_wrong": is_wrong, "is_faulted": policy == "fast" and number == 0}
                seconds = drifted(own[number] * (unit_s * weights[place]), slowdown)
                found.append(sample(policy, problem, number, seconds=seconds, **state))
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
    timing = {"id": name, "begun": "now", "address": f"tcp://{name}"}
    return records.Evaluation(stored, found, {"key": name, "pass": timing, "policies": facts})
