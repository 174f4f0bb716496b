"""What ends an early-stopping run, with a real worker."""

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict

SUITE = Suite(inputs=("1\n", "2\n", "3\n"), expected=("1\n", "2\n", "3\n"))
SLOW_ON_1 = "n = input()\nwhile n == '1': pass\nprint(n)"


def verdicts(program, **options):
    with client.connect("local", workers=1) as sandbox:
        request = RunRequest(program, sandbox.upload(SUITE), limits=Limits(wall_s=0.1), stops_early=True, **options)
        return [result.verdict for result in sandbox.run(request).results]


def test_a_failure_ends_the_run():
    assert verdicts("print(input() == '1' and '1')") == [Verdict.SUCCESS, Verdict.WRONG_OUTPUT]


def test_a_time_limit_alone_does_not():
    assert verdicts(SLOW_ON_1) == [Verdict.TIME_LIMIT, Verdict.SUCCESS, Verdict.SUCCESS]


def test_a_time_limit_on_an_optimization_test_is_an_outcome_and_elsewhere_a_failure():
    assert verdicts(SLOW_ON_1, optimization_tests=(0,)) == [Verdict.TIME_LIMIT, Verdict.SUCCESS, Verdict.SUCCESS]
    assert verdicts(SLOW_ON_1, optimization_tests=(2,)) == [Verdict.TIME_LIMIT]
