"""The embedded corpus in motion: labels, generators and speed classes as the sandbox sees them, on a sample."""

import pytest

from beam_pipelines.records import Label, Solution
from beam_pipelines.sources.mini import mini_families, verify
from beam_pipelines.sources.mini.family import iterate_instances, make_instance
from sandbox.client import connect
from sandbox.protocol import RunRequest, RunResult, Suite, TestResult, Verdict

FAMILIES = mini_families()
FAMILY_NAMES = [family.name for family in FAMILIES]
LARGE = ("generate_large_cases",)


@pytest.fixture(scope="module")
def client():
    with connect(workers=2) as client:
        yield client


def sampled(position: int):
    """One instance of a family: the tenth of its 18, so that the middle operation and varying forms are seen."""
    operation, form = list(iterate_instances(FAMILIES[position], position))[9]
    return operation, form, make_instance(FAMILIES[position], operation, form=form)


@pytest.mark.parametrize("position", range(len(FAMILIES)), ids=FAMILY_NAMES)
def test_labels_of_a_sampled_instance_hold_when_its_programs_run(client, position):
    operation, form, problem = sampled(position)
    made = verify.generate_inputs(client, FAMILIES[position], methods=verify.LABEL_METHODS, rounds=2)
    suite = Suite(
        tuple(test.input for test in problem.tests) + made,
        tuple(test.output for test in problem.tests) + tuple(form.text(operation.answer(text)) for text in made),
    )
    digest = client.upload(suite)
    runs = client.run_many([RunRequest(solution.program, digest) for solution in problem.solutions])
    assert [
        line
        for solution, run in zip(problem.solutions, runs, strict=True)
        for line in verify.describe_violations(problem.id, solution, run)
    ] == []


@pytest.mark.parametrize("position", range(len(FAMILIES)), ids=FAMILY_NAMES)
def test_generated_inputs_are_short_seeded_and_vary(client, position):
    methods = verify.LABEL_METHODS + LARGE
    inputs = verify.generate_inputs(client, FAMILIES[position], methods=methods, rounds=4)
    assert inputs == verify.generate_inputs(client, FAMILIES[position], methods=methods, rounds=4)
    assert len(set(inputs)) == len(inputs)
    assert max(map(len, inputs)) <= 20_000
    small, large = inputs[1::4], inputs[3::4]
    assert 10 * max(map(len, small)) < min(map(len, large))


def result(verdict: Verdict, wall_s: float = 0.1) -> TestResult:
    return TestResult(0, verdict, wall_s)


def run_of(*results: TestResult) -> RunResult:
    return RunResult("0" * 64, results)


CORRECT = Solution("fast_0", "", Label.CORRECT, "fast")
INCORRECT = Solution("wrong_0", "", Label.INCORRECT)


def test_a_correct_program_with_a_wrong_output_is_a_violation():
    run = run_of(result(Verdict.SUCCESS), result(Verdict.WRONG_OUTPUT))
    assert verify.describe_violations("p", CORRECT, run) == ["p fast_0: labelled correct, but test 0 is wrong_output"]
    assert verify.describe_violations("p", INCORRECT, run) == []


def test_a_wrong_program_that_passes_everything_is_a_violation():
    run = run_of(result(Verdict.SUCCESS), result(Verdict.SUCCESS))
    assert verify.describe_violations("p", INCORRECT, run) == ["p wrong_0: labelled incorrect, but passes all 2 tests"]
    assert verify.describe_violations("p", CORRECT, run) == []


@pytest.mark.parametrize("solution", [CORRECT, INCORRECT])
def test_a_fault_of_the_sandbox_confirms_no_label(solution):
    assert len(verify.describe_violations("p", solution, run_of(result(Verdict.SANDBOX_FAULT)))) == 1


def test_separation_compares_the_nearest_programs_of_neighbouring_classes():
    names = ("fast_0", "fast_1", "medium_0", "medium_1", "slow_0")
    solutions = [Solution(name, "", Label.CORRECT, name.split("_")[0]) for name in names]
    seconds = dict(zip(names, (0.001, 0.002, 0.004, 0.005, 0.015), strict=True))
    assert verify.measure_separation(solutions, seconds) == verify.SpeedSeparation(2.0, 3.0)


def test_the_least_disturbed_test_stands_for_a_program():
    run = run_of(result(Verdict.SUCCESS, 0.3), result(Verdict.SUCCESS, 0.1), result(Verdict.SUCCESS, 0.2))
    assert verify.least_wall_s([CORRECT], [run]) == {"fast_0": 0.1}


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--families", "knots"], "--families = 'knots'"), (["--rounds", "0"], "--rounds = 0")]
)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_code_2(capsys, arguments, said):
    assert verify.main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
