"""Edge: runs every program of the embedded corpus in the sandbox and checks its label and its speed class.

    python -m beam_pipelines.sources.mini.verify [--families pairs,tree] [--workers 2] [--rounds 3] [--repeats 5]

Correct programs have to agree with the trusted answers on base and generated tests, incorrect ones have to differ on at
least one base, edge, small or sample test. Exit code 0 if all is well, 1 with the list of violations, 2 for a mistake.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence

import rich.console
import rich.table

from beam_pipelines.generators import harness
from beam_pipelines.records import Generator, Label, Problem, Solution
from beam_pipelines.sources.mini import mini_families
from beam_pipelines.sources.mini.family import SPEED_CLASSES, ProblemFamily, iterate_instances, make_instance
from optimrl_jax.jobs import command_line
from optimrl_jax.jobs.errors import require
from sandbox.client import Client, connect
from sandbox.protocol import Limits, RunRequest, RunResult, Suite, Verdict

NAME = "beam_pipelines.sources.mini.verify"
LIMITS = Limits(wall_s=5.0)
LABEL_METHODS = ("generate_edge_cases", "generate_small_cases", "generate_sample_cases")
SPEED_METHODS = ("generate_large_cases",)
# The corpus is sized for 2.5 on an idle core; less than this means that classes mix, which no noise excuses.
MIN_SEPARATION = 1.5


@dataclasses.dataclass(frozen=True)
class SpeedSeparation:
    """How far apart the speed classes of one instance are.

    Attributes:
      medium_to_fast: time of the fastest medium program over that of the slowest fast one.
      slow_to_medium: time of the fastest slow program over that of the slowest medium one.
    """

    medium_to_fast: float
    slow_to_medium: float

    @property
    def least(self) -> float:
        """The smaller of the two gaps; above 1 no program of one class is as fast as one of the next."""
        return min(self.medium_to_fast, self.slow_to_medium)


@dataclasses.dataclass(frozen=True)
class InstanceReport:
    """What running one instance showed.

    Attributes:
      family: name of its family.
      violations: what contradicts its labels and speed classes, in words.
      least_s: id of a correct program -> least wall seconds on large inputs.
      separation: of its speed classes.
    """

    family: str
    violations: tuple[str, ...]
    least_s: Mapping[str, float]
    separation: SpeedSeparation


def verify_families(
    families: Iterable[ProblemFamily], client: Client, *, rounds: int, repeats: int
) -> Iterable[InstanceReport]:
    """Run all programs of the families and yield one report for each instance as soon as it is done.

    Args:
      families: some of `mini_families()`.
      client: a sandbox.
      rounds: calls of each of the generator's methods whose inputs check labels.
      repeats: timed executions of each correct program on each large input.

    Raises:
      RuntimeError: a generator gives no inputs.
    """
    positions = {family.name: position for position, family in enumerate(mini_families())}
    for family in families:
        label_inputs = generate_inputs(client, family, methods=LABEL_METHODS, rounds=rounds)
        speed_inputs = generate_inputs(client, family, methods=SPEED_METHODS, rounds=1)
        for operation, form in iterate_instances(family, positions[family.name]):
            problem = make_instance(family, operation, form=form)
            suite = Suite(
                tuple(test.input for test in problem.tests) + label_inputs + speed_inputs,
                tuple(test.output for test in problem.tests)
                + tuple(form.text(operation.answer(text)) for text in label_inputs + speed_inputs),
            )
            yield _report(problem, client, suite=suite, speed_tests=len(speed_inputs), repeats=repeats)


def generate_inputs(client: Client, family: ProblemFamily, *, methods: Sequence[str], rounds: int) -> tuple[str, ...]:
    """Run the family's generator in the sandbox and return its inputs, round by round.

    Args:
      client: a sandbox.
      family: the family.
      methods: the generator's methods of one round, in order.
      rounds: calls of each of them.

    Raises:
      RuntimeError: the generator gives none.
    """
    source = harness.wrapper_program(
        Generator("inputs", family.generator), methods, calls=rounds, seed=len(family.name)
    )
    digest = client.upload(Suite(("",), (None,)))
    (run,) = client.run_many([RunRequest(source, digest, returns_output=True)])
    inputs = harness.parse_inputs(run.results[0].output, expected=rounds * len(methods))
    if isinstance(inputs, str):
        raise RuntimeError(f"{family.name}: {inputs}: {run.results[0].detail}")
    return inputs


def _report(problem: Problem, client: Client, *, suite: Suite, speed_tests: int, repeats: int) -> InstanceReport:
    digest = client.upload(suite)
    tests = tuple(range(len(suite.inputs)))
    label_tests, large_tests = tests[:-speed_tests], tests[-speed_tests:]
    label_runs = client.run_many(
        [RunRequest(solution.program, digest, label_tests, LIMITS) for solution in problem.solutions]
    )
    speed_runs = client.run_many(
        [RunRequest(solution.program, digest, large_tests, LIMITS, repeats) for solution in problem.correct]
    )
    pairs = [*zip(problem.solutions, label_runs, strict=True), *zip(problem.correct, speed_runs, strict=True)]
    violations = [line for pair in pairs for line in describe_violations(problem.id, *pair)]
    least_s = least_wall_s(problem.correct, speed_runs)
    gaps = measure_separation(problem.correct, least_s)
    if gaps.least < MIN_SEPARATION:
        violations.append(
            f"{problem.id}: speed classes {gaps.medium_to_fast:.1f}x and {gaps.slow_to_medium:.1f}x apart"
        )
    return InstanceReport(problem.category, tuple(violations), least_s, gaps)


def describe_violations(problem_id: str, solution: Solution, run: RunResult) -> list[str]:
    """Say in words what contradicts the label of a solution; empty if nothing does.

    Args:
      problem_id: begins the line.
      solution: has the label.
      run: of the solution on all tests that check labels.
    """
    failed = [result for result in run.results if result.verdict is not Verdict.SUCCESS]
    if run.is_faulted:
        return [f"{problem_id} {solution.id}: the sandbox failed: {failed[0].detail}"]
    if solution.label is Label.CORRECT and failed:
        return [f"{problem_id} {solution.id}: labelled correct, but test {failed[0].test} is {failed[0].verdict}"]
    if solution.label is Label.INCORRECT and not failed:
        return [f"{problem_id} {solution.id}: labelled incorrect, but passes all {len(run.results)} tests"]
    return []


def least_wall_s(solutions: Sequence[Solution], runs: Sequence[RunResult]) -> dict[str, float]:
    """Return the least wall seconds of each run over its tests, which are inputs of one size.

    On a shared host most runs may be disturbed, and a disturbed run is only ever slower.

    Args:
      solutions: the programs.
      runs: one for each of them, in order.

    Returns:
      Solution id -> seconds.
    """
    return {
        solution.id: min(result.wall_s for result in run.results) for solution, run in zip(solutions, runs, strict=True)
    }


def measure_separation(solutions: Sequence[Solution], seconds: Mapping[str, float]) -> SpeedSeparation:
    """Compare neighbouring speed classes by the wall seconds of their programs.

    Args:
      solutions: correct programs; every class has at least one.
      seconds: solution id -> s.
    """
    times = {
        name: [seconds[solution.id] for solution in solutions if solution.speed_class == name] for name in SPEED_CLASSES
    }
    return SpeedSeparation(
        medium_to_fast=min(times["medium"]) / max(times["fast"]),
        slow_to_medium=min(times["slow"]) / max(times["medium"]),
    )


def separation_table(reports: Sequence[InstanceReport]) -> rich.table.Table:
    """Make a table with a row for each family: range of each class in ms, and the smallest separation."""
    rows = rich.table.Table(title="embedded corpus: time on large inputs, ms")
    for heading in ("family", *SPEED_CLASSES, "medium / fast", "slow / medium", "violations"):
        rows.add_column(heading, justify="left" if heading == "family" else "right")
    for name in dict.fromkeys(report.family for report in reports):
        in_family = [report for report in reports if report.family == name]
        rows.add_row(
            name,
            *(_range_ms(in_family, speed_class) for speed_class in SPEED_CLASSES),
            f"{min(report.separation.medium_to_fast for report in in_family):.1f}",
            f"{min(report.separation.slow_to_medium for report in in_family):.1f}",
            str(sum(len(report.violations) for report in in_family)),
        )
    return rows


def _range_ms(reports: Sequence[InstanceReport], speed_class: str) -> str:
    times = [value for report in reports for key, value in report.least_s.items() if key.startswith(speed_class)]
    return f"{1e3 * min(times):.2f} to {1e3 * max(times):.2f}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_line.ArgumentParser(prog=NAME, description=__doc__.splitlines()[0], allow_abbrev=False)
    names = [family.name for family in mini_families()]
    parser.add_argument("--families", default=",".join(names), help="families to verify, separated by commas")
    parser.add_argument("--workers", type=int, default=2, help="sandbox workers")
    parser.add_argument("--rounds", type=int, default=3, help="calls of each of the generator's methods")
    parser.add_argument("--repeats", type=int, default=5, help="timed executions of each large test")
    options = parser.parse_args(arguments)
    names_given = options.families.split(",")
    for name in names_given:
        require(name in names, "--families", name, f"some of {','.join(names)}")
    for field in ("workers", "rounds", "repeats"):
        value = getattr(options, field)
        require(1 <= value <= 100, f"--{field}", value, "a whole number in [1, 100]")
    options.families = [family for family in mini_families() if family.name in names_given]
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Verify the families that the arguments name; return 0 if all is well, 1 with violations, 2 for a mistake."""
    violations: list[str] = []

    def job(arguments: Sequence[str]) -> None:
        options = _options(arguments)
        reports = []
        with connect(workers=options.workers, reuse="never") as client:
            for report in verify_families(options.families, client, rounds=options.rounds, repeats=options.repeats):
                reports.append(report)
                print(f"{report.family}: {len(reports)} instances, {len(report.violations)} violations", flush=True)
        rich.console.Console(width=100).print(separation_table(reports))
        violations.extend(line for report in reports for line in report.violations)

    code = command_line.run_command(job, argv, name=NAME)
    for line in violations:
        print(line, file=sys.stderr)
    return code or int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
