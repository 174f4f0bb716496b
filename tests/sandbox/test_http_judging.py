"""What judges need, over a server in a process of its own: checker programs, calls, interactors, own limits."""

import httpx
import pytest

from sandbox import client
from sandbox.protocol import Call, Interactor, JudgeProgram, Limits, RunRequest, Suite, Verdict
from tests.sandbox import servers

CHECKER = "import sys\nsaid = open(sys.argv[2]).read().split()\nsys.exit(0 if sorted(said) == ['1', '2'] else 1)"
INTERACTOR = "import sys\nprint(41, flush=True)\nsys.exit(42 if input() == '42' else 43)"
ASKING_AGAIN = """
import sys
if open(sys.argv[1]).read() == "first":
    open(sys.argv[3] + "nextpass.in", "w").write("second")
    sys.exit(42)
sys.exit(42 if input() == "second" else 43)
"""
TALKING_AGAIN = ASKING_AGAIN.replace("import sys", "import sys\nprint(open(sys.argv[1]).read(), flush=True)")
SUITES = {
    "checker program": (Suite(("",), ("1 2",), judge=JudgeProgram(CHECKER, "python3")), "print(2, 1)", "print(2)"),
    "call": (Suite(("[20, 22]",), ("42",), call=Call("add")), "def add(a, b): return a + b", "def add(a, b): return a"),
    "interactor": (
        Suite(("",), ("",), interactor=Interactor(INTERACTOR, "python3", "kattis")),
        "print(int(input()) + 1)",
        "print(input())",
    ),
    "interactor of several passes": (
        Suite(("first",), ("",), interactor=Interactor(TALKING_AGAIN, "python3", "kattis", passes=2)),
        "print(input())",
        "print('first')",
    ),
    "passes": (
        Suite(("first",), ("",), judge=JudgeProgram(ASKING_AGAIN, "python3", "kattis", passes=2)),
        "print(input())",
        "print('first')",
    ),
    "kattis": (Suite(("",), ("Abc 1.0",), checker="kattis"), "print('abc 1.0')", "print('abc 2')"),
}


@pytest.fixture(scope="module")
def url():
    port = servers.free_port()
    process = servers.start_server(port)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_judged_alike_by_client_and_in_one_request(url, name):
    suite, right, wrong = SUITES[name]
    with client.connect(url, workers=1, reuse="never") as connected:
        sha256 = connected.upload(suite)
        for program, verdict in ((right, Verdict.SUCCESS), (wrong, Verdict.WRONG_OUTPUT)):
            (found,) = connected.run(RunRequest(program, sha256)).results
            assert found.verdict is verdict, found
    fields = {"inputs": suite.inputs, "expected": suite.expected, "checker": suite.checker}
    for part, keys in (
        ("judge", ("program", "language", "convention", "passes")),
        ("call", ("entry_point",)),
        ("interactor", ("program", "language", "convention", "passes")),
    ):
        if (held := getattr(suite, part)) is not None:
            fields[part] = {key: getattr(held, key) for key in keys}
    answer = httpx.post(f"{url}/v1/runs", json={"program": right, "suite": fields}, timeout=60)
    assert [result["verdict"] for result in answer.json()["results"]] == ["success"], answer.text


def test_a_mistake_in_a_problems_program_is_refused_by_name(url):
    for change, text in (
        ({"interactor": {"program": "print(", "language": "python3"}}, "suite.interactor.program"),
        ({"interactor": {"program": "", "conventions": "kattis"}}, "suite.interactor.conventions"),
        ({"judge": {"program": 3}}, "suite.judge.program"),
        ({"judge": {"program": "", "language": "python3", "limits": {"wall_s": True}}}, "suite.judge.limits.wall_s"),
        ({"call": {"entry": "add"}}, "suite.call.entry"),
    ):
        body = {"program": "print(1)", "suite": {"inputs": ["[1]"], "expected": ["1"]} | change}
        answer = httpx.post(f"{url}/v1/runs", json=body, timeout=60)
        assert answer.status_code == 422
        assert text in answer.json()["detail"]


def test_limits_of_single_tests_hold_on_a_server(url):
    suite = Suite(("", ""), (None, None))
    with client.connect(url, workers=1) as connected:
        request = RunRequest(
            "import time\ntime.sleep(0.3)", connected.upload(suite), test_limits=(Limits(wall_s=0.1), None)
        )
        assert [result.verdict for result in connected.run(request).results] == [Verdict.TIME_LIMIT, Verdict.SUCCESS]
