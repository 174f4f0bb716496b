"""A benchmark of tests alone, end to end: two policies behind a server, a real sandbox, scores, limits, win rates."""

import json

import pyarrow.parquet as pq
import pytest

from beam_pipelines import build_dataset
from optimrl_jax import analyze, evaluate
from optimrl_jax.evaluation.held_out.problems import load_held_out
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.command_line import Job
from optimrl_jax.settings import Settings
from tests.optimrl_jax.evaluation.endpoint import completion, scripted

# Ten problems of three difficulties: read a number n, print n times the problem's factor.
FACTORS = range(2, 12)
SLOW = "for i in range(200000): pass\n"


def write_benchmark(path):
    lines = [
        {
            "id": f"lcb/{factor}",
            "statement": f"Print {factor} times the number.",
            "difficulty": ("easy", "medium", "hard")[factor % 3],
            "tests": [{"input": f"{n}\n", "output": f"{factor * n}\n"} for n in (1, 5)],
        }
        for factor in FACTORS
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def answer(body):
    """`quick` solves all problems, `slow` takes its time and fails the hard ones."""
    asked = body["messages"][-1]["content"]
    assert "Python 3 program" in asked
    factor = int(asked.partition("Print ")[2].split()[0])
    if body["model"] == "slow":
        factor += factor % 3 == 2
        return completion(f"```python\n{SLOW}print({factor} * int(input()))\n```")
    return completion(f"```python\nprint({factor} * int(input()))\n```")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    root = tmp_path_factory.mktemp("benchmark")
    write_benchmark(root / "lcb.jsonl")
    with scripted(answer) as url:
        policies = tuple((name, f"{url}#{name}") for name in ("slow", "quick"))
        values = {"benchmark": str(root / "lcb.jsonl"), "policies": policies, "samples": 2, "ks": (1, 2)}
        evaluate.main(Job(freeze(Settings, {"evaluation": values}), root))
    assert analyze.main([f"--records={root / 'evaluation'}", f"--output={root / 'page'}"]) == 0
    return root


def test_pass_at_k_is_of_correctness_alone(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    assert summary["pass@1"] == {"slow": {"p100": 0.6}, "quick": {"p100": 1.0}}
    assert set(summary["pass@2"]["quick"]) == {"p100"}


def test_the_page_has_difficulty_win_rates_and_limits_and_says_what_needs_references(workdir):
    def rows(name):
        return pq.read_table(workdir / "page" / f"{name}.parquet").to_pylist()

    hard = [row for row in rows("difficulty") if row["difficulty"] == "3"]
    assert {row["policy"]: row["p100"] for row in hard} == {"slow": 0.0, "quick": 100.0}
    best = next(row for row in rows("win_rates") if row["rate"] == "WR_b")
    assert (best["filtered"], best["wins"] + best["losses"] + best["draws"]) == (4, 6)
    assert best["wins"] >= 5
    limits = rows("time_limits")
    assert limits[1]["10_s"] == 100.0
    page = (workdir / "page" / "index.html").read_text()
    assert page.count("needs problems with references") == 10


def test_the_pipeline_keeps_the_same_problems_in_a_dataset_of_tests_alone(tmp_path):
    write_benchmark(tmp_path / "lcb.jsonl")
    dataset = tmp_path / "dataset"
    flags = ["--source=jsonl", f"--input={tmp_path / 'lcb.jsonl'}", "--tests_only", f"--output={dataset}"]
    build_dataset.main(flags)
    settings = [{"evaluation": {"benchmark": str(tmp_path / "lcb.jsonl")}}]
    settings.append({"data": {"directory": str(dataset), "test_split": "evaluation"}})
    plain, built = (load_held_out(freeze(Settings, values)) for values in settings)
    kept = ("id", "statement", "difficulty", "test_input", "test_output", "reference_program")
    assert sorted(problem.id for problem in built) == sorted(f"lcb/{factor}" for factor in FACTORS)
    for problem in plain:
        (twin,) = (other for other in built if other.id == problem.id)
        assert [getattr(problem, name) for name in kept] == [getattr(twin, name) for name in kept]
        assert twin.duration_s.shape == problem.duration_s.shape == (2, 0)
