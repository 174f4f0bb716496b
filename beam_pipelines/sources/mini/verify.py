"""Edge: runs every program of the embedded corpus in the sandbox and checks its label and its speed class.

    python -m beam_pipelines.sources.mini.verify [--families pairs,tree] [--workers 2] [--rounds 3] [--repeats 5]

Correct programs have to agree with the trusted answers on base and generated tests, wrong ones have to differ on at
least one base, edge, small or sample test. Exit code 0 if all is well, 1 with the list of violations, 2 for a mistake.
"""

import dataclasses
import sys
from collections.abc import Iterable, Sequence

import rich.console
import rich.table

from beam_pipelines import commands
from beam_pipelines.generators import harness
from beam_pipelines.records import Generator, Label, Problem, Solution
from beam_pipelines.sources.mini import FAMILIES
from beam_pipelines.sources.mini.family import Family, instances, problem
from beam_pipelines.sources.mini.separation import CLASSES, Separation, least_s, separation
from sandbox.client import Client, connect
from sandbox.protocol import Limits, RunRequest, RunResult, Suite, Verdict

NAME = "beam_pipelines.sources.mini.verify"
LIMITS = Limits(wall_s=5.0)
LABEL_METHODS = ("generate_edge_cases", "generate_small_cases", "generate_sample_cases")
SPEED_METHODS = ("generate_large_cases",)
# The corpus is sized for 2.5 on an idle core; less than this means that classes mix, which no noise excuses.
MIN_SEPARATION = 1.5


@dataclasses.dataclass(frozen=True)
class Report:
    """What running one instance showed: violations in words, and how far its speed classes are apart."""

    family: str
    violations: tuple[str, ...]
    least_s: dict[str, float]
    separation: Separation


def verify(families: Iterable[Family], client: Client, *, rounds: int, repeats: int) -> Iterable[Report]:
    """One report for each instance of the families, as each is done."""
    positions = {family.name: position for position, family in enumerate(FAMILIES)}
    for family in families:
        label_inputs = generated(client, family, methods=LABEL_METHODS, rounds=rounds)
        speed_inputs = generated(client, family, methods=SPEED_METHODS, rounds=1)
        for operation, form in instances(family, positions[family.name]):
            one = problem(family, operation, form=form)
            suite = Suite(
                tuple(test.input for test in one.tests) + label_inputs + speed_inputs,
                tuple(test.output for test in one.tests)
                + tuple(form.text(operation.answer(text)) for text in label_inputs + speed_inputs),
            )
            yield _report(one, client, suite=suite, speed_tests=len(speed_inputs), repeats=repeats)


def generated(client: Client, family: Family, *, methods: Sequence[str], rounds: int) -> tuple[str, ...]:
    """Inputs from the family's generator, run in the sandbox; raises RuntimeError if it gives none."""
    source = harness.program(Generator("inputs", family.generator), methods, calls=rounds, seed=len(family.name))
    digest = client.upload(Suite(("",), (None,)))
    (run,) = client.run_many([RunRequest(source, digest, returns_output=True)])
    inputs = harness.read(run.results[0].output, expected=rounds * len(methods))
    if isinstance(inputs, str):
        raise RuntimeError(f"{family.name}: {inputs}: {run.results[0].detail}")
    return inputs


def _report(one: Problem, client: Client, *, suite: Suite, speed_tests: int, repeats: int) -> Report:
    digest = client.upload(suite)
    split = len(suite.inputs) - speed_tests
    label_runs = client.run_many(
        [RunRequest(solution.program, digest, tests=tuple(range(split)), limits=LIMITS) for solution in one.solutions]
    )
    speed_runs = client.run_many(
        [
            RunRequest(solution.program, digest, tuple(range(split, len(suite.inputs))), LIMITS, repeats)
            for solution in one.correct
        ]
    )
    violations = [line for pair in zip(one.solutions, label_runs, strict=True) for line in violations_of(one.id, *pair)]
    violations += [line for pair in zip(one.correct, speed_runs, strict=True) for line in violations_of(one.id, *pair)]
    least = least_s(one.correct, speed_runs)
    apart = separation(one.correct, least)
    if min(apart) < MIN_SEPARATION:
        violations.append(f"{one.id}: speed classes {apart.medium_to_fast:.1f}x and {apart.slow_to_medium:.1f}x apart")
    return Report(one.category, tuple(violations), least, apart)


def violations_of(problem_id: str, solution: Solution, run: RunResult) -> list[str]:
    """What contradicts the label of a solution, in words; empty if nothing does."""
    failed = [result for result in run.results if result.verdict is not Verdict.SUCCESS]
    if run.is_faulted:
        return [f"{problem_id} {solution.id}: the sandbox failed: {failed[0].detail}"]
    if solution.label is Label.CORRECT and failed:
        return [f"{problem_id} {solution.id}: labelled correct, but test {failed[0].test} is {failed[0].verdict}"]
    if solution.label is Label.INCORRECT and not failed:
        return [f"{problem_id} {solution.id}: labelled incorrect, but passes all {len(run.results)} tests"]
    return []


def table(reports: Sequence[Report]) -> rich.table.Table:
    """One row a family: range of the median seconds of each class in ms, and the smallest separation of an instance."""
    rows = rich.table.Table(title="embedded corpus: time on large inputs, ms")
    for heading in ("family", *CLASSES, "medium / fast", "slow / medium", "violations"):
        rows.add_column(heading, justify="left" if heading == "family" else "right")
    for name in dict.fromkeys(report.family for report in reports):
        own = [report for report in reports if report.family == name]
        rows.add_row(
            name,
            *(_range_ms(own, speed_class) for speed_class in CLASSES),
            f"{min(report.separation.medium_to_fast for report in own):.1f}",
            f"{min(report.separation.slow_to_medium for report in own):.1f}",
            str(sum(len(report.violations) for report in own)),
        )
    return rows


def _range_ms(reports: Sequence[Report], speed_class: str) -> str:
    times = [value for report in reports for key, value in report.least_s.items() if key.startswith(speed_class)]
    return f"{1e3 * min(times):.2f} to {1e3 * max(times):.2f}"


def _options(arguments: Sequence[str]) -> tuple[list[Family], int, int, int]:
    parser = commands.Parser(prog=NAME, description=__doc__.splitlines()[0], allow_abbrev=False)
    names = [family.name for family in FAMILIES]
    parser.add_argument("--families", default=",".join(names), help="families to verify, separated by commas")
    parser.add_argument("--workers", type=int, default=2, help="sandbox workers")
    parser.add_argument("--rounds", type=int, default=3, help="calls of each of the generator's methods")
    parser.add_argument("--repeats", type=int, default=5, help="timed executions of each large test")
    options = parser.parse_args(arguments)
    chosen = options.families.split(",")
    for name in chosen:
        commands.require(name in names, "--families", name, f"some of {','.join(names)}")
    for field in ("workers", "rounds", "repeats"):
        value = getattr(options, field)
        commands.require(1 <= value <= 100, f"--{field}", value, "a whole number in [1, 100]")
    return [family for family in FAMILIES if family.name in chosen], options.workers, options.rounds, options.repeats


def main(argv: Sequence[str] | None = None) -> int:
    violations: list[str] = []

    def job(arguments: Sequence[str]) -> None:
        families, workers, rounds, repeats = _options(arguments)
        reports = []
        with connect(workers=workers, reuse="never") as client:
            for report in verify(families, client, rounds=rounds, repeats=repeats):
                reports.append(report)
                print(f"{report.family}: {len(reports)} instances, {len(report.violations)} violations", flush=True)
        rich.console.Console(width=100).print(table(reports))
        violations.extend(line for report in reports for line in report.violations)

    code = commands.run_job(job, argv, name=NAME)
    for line in violations:
        print(line, file=sys.stderr)
    return code or int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
