"""Makes up an evaluation to look around in without models, programs or a sandbox: known speeds, known faults."""

from collections.abc import Mapping

import numpy as np

from optimrl_jax.arrays import Status
from optimrl_jax.evaluation.records import REFERENCES, Evaluation, SampleRecord, StoredProblem
from optimrl_jax.simulator.problems import Problems, synthetic

# Places among the references that samples of a policy take on average, and the share of them that is correct.
POLICIES: Mapping[str, tuple[float, float]] = {"before": (0.6, 0.6), "after": (0.3, 0.8)}
SAMPLES = 10
FAULT_SHARE = 0.02


def example_evaluation(*, problems: int = 24, tests: int = 12, references: int = 24, seed: int = 0) -> Evaluation:
    """Make up an evaluation of two policies, the second one faster and more often correct.

    A sample runs as long as the reference at a place drawn around its policy's, on every test; harder problems are
    solved less often; a few samples meet a fault. The pass is 1.1 times as slow as the stored durations, plus 2 ms.
    """
    draw = np.random.default_rng(seed)
    made = synthetic(problems=problems, tests=tests, references=references, seed=seed)
    stored = [_problem(made, index, difficulty=1 + index % 3) for index in range(problems)]
    samples: list[SampleRecord] = []
    for problem in stored:
        fresh_s = 1.1 * problem.duration_s + 0.002
        order = np.argsort(problem.duration_s.mean(axis=0))
        for h in range(references):
            samples.append(_sample(REFERENCES, problem, h, fresh_s[:, h], ""))
        for policy, (place, correct) in POLICIES.items():
            for n in range(SAMPLES):
                position = int(np.clip(draw.normal(place, 0.2), 0, 1) * (references - 1))
                seconds = fresh_s[:, order[position]] * draw.lognormal(0, 0.02, tests)
                record = _sample(policy, problem, n, seconds, f"# {policy}, sample {n}\n")
                is_wrong = draw.random() > correct - 0.1 * (problem.difficulty - 1)
                record.status[0] = Status.FAILURE if is_wrong else record.status[0]
                record.status[1] = Status.FAULT if draw.random() < FAULT_SHARE else record.status[1]
                samples.append(record)
    unknown = dict.fromkeys(("step", "written", "seed", "recipe", "wall_s"))
    facts = {name: {"source": "made up"} | unknown for name in POLICIES}
    return Evaluation(stored, samples, {"key": "example", "pass": {"id": "example", "begun": ""}, "policies": facts})


def _problem(made: Problems, index: int, *, difficulty: int) -> StoredProblem:
    duration_s, status = made.duration_s[index], made.status[index]
    names = tuple(f"r{n}" for n in range(duration_s.shape[1]))
    return StoredProblem(
        id=f"example/{index}",
        sha256=f"example {index}",
        source="example",
        category=("graphs", "strings", "numbers")[index % 3],
        statement=f"Problem {index}.",
        difficulty=difficulty,
        rating=0,
        time_limit_s=0.0,
        test_kind=np.asarray(made.tests.kind[index], np.int8),
        characters=np.asarray(made.tests.characters[index], np.int32),
        reference_id=names,
        reference_program=("",) * len(names),
        duration_s=duration_s,
        std_s=0.02 * duration_s,
        status=np.asarray(status, np.int8),
    )


def _sample(policy: str, problem: StoredProblem, number: int, seconds: np.ndarray, program: str) -> SampleRecord:
    seconds = np.minimum(seconds, 10).astype(np.float32)
    status = np.where(seconds >= 10, Status.TIMEOUT, Status.SUCCESS).astype(np.int8)
    return SampleRecord(policy, problem.id, number, program, status, seconds, tokens=100 * problem.difficulty)
