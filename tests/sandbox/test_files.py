"""Programs of several files, in the languages that this machine has, and limits that a backend cannot give."""

import os

import pytest

from sandbox import client
from sandbox.backends import docker
from sandbox.inside import languages
from sandbox.protocol import InvalidRequestError, Limits, RunRequest, Suite, Verdict
from tests.sandbox.engine import require_docker

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
PROGRAMS = {
    "python3": ("import twice\nprint(twice.of(int(input())))", {"twice.py": "def of(n):\n    return 2 * n\n"}),
    "python3_fresh": ("import twice\nprint(twice.of(int(input())))", {"twice.py": "def of(n):\n    return 2 * n\n"}),
    "c": (
        '#include <stdio.h>\n#include "twice.h"\nint main() { int n; scanf("%d", &n); printf("%d\\n", twice(n)); }',
        {"twice.h": "int twice(int);", "twice.c": '#include "twice.h"\nint twice(int n) { return 2 * n; }'},
    ),
    "cpp": (
        '#include <iostream>\n#include "twice.h"\nint main() { int n; std::cin >> n; std::cout << twice(n); }',
        {"twice.h": "int twice(int);", "twice.cpp": '#include "twice.h"\nint twice(int n) { return 2 * n; }'},
    ),
}


@pytest.fixture(scope="module")
def sandbox():
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


def verdicts(sandbox, language: str, files: dict[str, str]) -> set[Verdict]:
    request = RunRequest(PROGRAMS[language][0], SUITE.sha256, language=language, files=files)
    return {result.verdict for result in sandbox.run(request).results}


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_of_several_files_runs_and_misses_them_where_they_are_absent(sandbox, language):
    needs = languages.LANGUAGES[language].needs
    if needs and not os.access(needs, os.X_OK):
        pytest.skip(f"{needs} is not here")
    assert verdicts(sandbox, language, PROGRAMS[language][1]) == {Verdict.SUCCESS}
    failure = Verdict.RUNTIME_ERROR if language.startswith("python3") else Verdict.COMPILE_ERROR
    assert verdicts(sandbox, language, {}) == {failure}


def test_a_file_that_changed_is_another_program(sandbox):
    other = {"twice.py": "def of(n):\n    return n\n"}
    assert verdicts(sandbox, "python3", other) == {Verdict.WRONG_OUTPUT}


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "", ".hidden", "program.py", "program", "x" * 101])
def test_a_name_that_would_lie_elsewhere_is_refused(name):
    with pytest.raises(InvalidRequestError, match="files = "):
        RunRequest("1", SUITE.sha256, files={name: ""})


@pytest.mark.docker
@pytest.mark.parametrize("name", docker.MOST)
def test_a_limit_above_what_containers_have_is_the_callers_mistake(name):
    require_docker()
    with client.connect("docker", workers=1) as connected:
        connected.upload(SUITE)
        limits = Limits(**{name: docker.MOST[name] + 1})
        with pytest.raises(InvalidRequestError, match=rf"limits\.{name} = .*: expected at most {docker.MOST[name]},"):
            connected.run(RunRequest("print(6)", SUITE.sha256, limits=limits))


def test_each_test_may_have_limits_of_its_own_and_wall_and_processor_time_are_apart(sandbox):
    sleeper, spinner = "import time\ntime.sleep(0.4)\n", "import time\nwhile time.process_time() < 0.4: pass\n"
    tight, slim = Limits(wall_s=0.2), Limits(wall_s=5.0, cpu_s=0.2)
    late, right = Verdict.TIME_LIMIT, Verdict.SUCCESS
    for head, own, expected in (
        (sleeper, (tight, None), [late, right]),
        (sleeper, (None, tight), [right, late]),
        (sleeper, (slim, slim), [right, right]),
        (spinner, (slim, None), [late, right]),
    ):
        request = RunRequest(head + "print(2 * int(input()))", SUITE.sha256, test_limits=own)
        results = sandbox.run(request).results
        assert [result.verdict for result in results] == expected
        assert all(
            result.wall_s == limits.wall_s for result, limits in zip(results, own, strict=True) if limits is tight
        )
    with pytest.raises(InvalidRequestError, match=r"test_limits = .*: expected one for each"):
        sandbox.run(RunRequest("1", SUITE.sha256, test_limits=(tight,)))
    with pytest.raises(InvalidRequestError, match=r"test_limits\[0\] = 3: expected"):
        RunRequest("1", SUITE.sha256, test_limits=(3,))
