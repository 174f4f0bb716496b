"""Languages beside Python: verdicts of a compiled language, and what an image without it says."""

import os

import pytest

from sandbox import client
from sandbox.inside import languages
from sandbox.protocol import InvalidRequestError, Limits, RunRequest, Suite, Verdict

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
BODY = "#include <iostream>\n#include <vector>\nint main() { int n; std::cin >> n; %s }\n"
COMPILER = languages.LANGUAGES["cpp"].needs
needs_compiler = pytest.mark.skipif(not os.access(COMPILER, os.X_OK), reason=f"{COMPILER} is not here")


@pytest.fixture(scope="module")
def sandbox():
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


def verdicts(sandbox, program, **options):
    request = RunRequest(program, SUITE.sha256, language="cpp", limits=Limits(wall_s=1.0), **options)
    return [result.verdict for result in sandbox.run(request).results]


@needs_compiler
@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("std::cout << 2 * n << std::endl;", Verdict.SUCCESS),
        ("std::cout << n << std::endl;", Verdict.WRONG_OUTPUT),
        ("return n;", Verdict.RUNTIME_ERROR),
        ("*(volatile int *)nullptr = n;", Verdict.RUNTIME_ERROR),
        ("for (;;) { volatile int k = n; }", Verdict.TIME_LIMIT),
        ("std::cout << m;", Verdict.COMPILE_ERROR),
    ],
)
def test_a_compiled_program_has_its_verdict(sandbox, statement, verdict):
    assert verdicts(sandbox, BODY % statement, repeats=2) == [verdict] * 2


@needs_compiler
def test_a_program_cannot_change_itself_for_the_next_test(sandbox):
    overwrite = f'FILE *own = fopen("/proc/self/fd/{languages.PROGRAM_DESCRIPTOR}", "r+"); if (own) return 1;'
    program = "#include <cstdio>\n" + BODY % (overwrite + "std::cout << 2 * n << std::endl;")
    assert verdicts(sandbox, program) == [Verdict.SUCCESS] * 2


def test_a_language_that_the_image_lacks_is_the_callers_mistake(sandbox):
    if os.access(languages.LANGUAGES["pypy3"].needs, os.X_OK):
        pytest.skip("this machine has every language")
    with pytest.raises(InvalidRequestError, match=r"language = 'pypy3'.*is not in this image"):
        sandbox.run(RunRequest("print(6)", SUITE.sha256, language="pypy3"))
    assert sandbox.run(RunRequest("print(2 * int(input()))", SUITE.sha256)).results[0].verdict is Verdict.SUCCESS
