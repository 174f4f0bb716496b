"""Running programs for stages: generators in the sandbox, stops, renewal and sharing of the client."""

import concurrent.futures
import json
import os

import pytest

from beam_pipelines import sandbox_session
from beam_pipelines.generators.drawing import draw_inputs
from beam_pipelines.generators.harness import CAMPAIGN_METHODS
from beam_pipelines.records import Generator, Test
from sandbox.inside import languages
from sandbox.protocol import RunRequest, Suite
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import run_quietly, write_corpus

COMPILER = languages.LANGUAGES["c"].needs
METHODS = CAMPAIGN_METHODS["optimization"]
PRINTED = "import random\nrandom.seed(7)\ndef generate_input():\n    print(random.randint(1, 10**9))\nprint('noise')\n"


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "executions.sqlite"
    return sandbox_session.Connection(address="local", workers=1, store=str(store), limit_s=1.0, memory_bytes=1 << 28)


@pytest.fixture
def session(connection):
    yield sandbox_session.acquire_session(connection)
    sandbox_session.release_session(connection)


def test_a_generators_inputs_depend_on_the_seed_alone(session):
    generator = Generator("g", planted.SUM_GENERATOR)
    first = draw_inputs(session, generator, METHODS, calls=2, seed=1)
    assert len(first) == len(set(first)) == 6
    assert draw_inputs(session, generator, METHODS, calls=2, seed=1) == first
    assert draw_inputs(session, generator, METHODS, calls=2, seed=2) != first


def test_a_function_that_prints_is_a_generator_too_and_its_own_seed_does_not_freeze_it(session):
    inputs = draw_inputs(session, Generator("g", PRINTED), METHODS, calls=1, seed=3)
    assert len(set(inputs)) == 3
    assert all(text.strip().isdigit() for text in inputs)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("1 / 0", "generator_runtime_error"),
        ("while True:\n    pass", "generator_time_limit"),
        ("class InputGenerator:\n    pass", "generator_runtime_error"),
        ("def generate_input():\n    return 5", "generator_returned_no_text"),
        ("import os\nos._exit(0)", "generator_output_is_not_json"),
    ],
)
def test_a_generator_that_gives_no_inputs_has_a_reason(session, program, reason):
    assert draw_inputs(session, Generator("g", program), METHODS, calls=1, seed=0) == reason


@pytest.mark.skipif(not os.access(COMPILER, os.X_OK), reason=f"{COMPILER} is not here")
def test_a_compiled_generator_gets_the_arguments_of_each_command(session):
    program = """
#include "own.h"
#include <stdio.h>
int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) printf("%s%s", arguments[i], SEPARATOR);
    return count > 1 && arguments[1][0] == 'x';
}
"""
    own = {"own.h": '#define SEPARATOR "|"\n'}
    generator = Generator("g", program, commands=("4", "", "'a b' {seed}"), language="c", files=own)
    assert draw_inputs(session, generator, METHODS, calls=1, seed=5) == ("a b|5|\n", "\n", "4|\n")
    assert len(draw_inputs(session, generator, METHODS, calls=2, seed=5)) == 4, "equal commands are called once"
    failing = Generator("g", program, commands=("1", "x"), language="c", files=own)
    assert draw_inputs(session, failing, METHODS, calls=1, seed=0) == "generator_runtime_error"


@pytest.mark.parametrize("language", ["python3", "cpp"])
def test_a_generator_that_the_sandbox_does_not_take_has_a_reason(session, language):
    generator = Generator("g", "", commands=("1",), language=language, files={"no name": ""})
    assert draw_inputs(session, generator, METHODS, calls=1, seed=0) == "generator_invalid_request"


def test_executions_say_what_every_solution_did_on_every_test(session):
    solutions = [planted.solution("a", planted.FAST_SUM), planted.solution("b", planted.WRONG_ANSWER)]
    tests = [planted.original("1\n5\n", "5\n"), planted.original("2\n1 2\n", "3\n"), planted.original("x\n", "1\n")]
    runs = session.run(solutions, tests, returns_output=True)
    assert runs.executions.status.tolist() == [[0, 0], [0, 2], [2, 2]]
    assert runs.outputs[0][:2] == ("5\n", "3\n")
    assert (runs.executions.wall_s[:2] > 0).all()
    early = session.run(solutions, tests[1:], stops_early=True)
    assert early.executions.status.tolist() == [[0, 2], [2, 4]], "a failure ends the run, later pairs are unknown"


@pytest.mark.parametrize("stops_early", [False, True])
def test_tests_that_no_service_takes_in_one_suite_are_run_in_several(session, monkeypatch, stops_early):
    solutions = [planted.solution("a", planted.FAST_SUM), planted.solution("b", planted.WRONG_ANSWER)]
    tests = [planted.original("1\n5\n", "5\n"), planted.original("2\n1 2\n", "3\n"), planted.original("1\n7\n", "7\n")]
    whole = session.run(solutions, tests, returns_output=True, stops_early=stops_early)
    monkeypatch.setattr(sandbox_session, "SUITE_BYTES", 1)
    parts = session.run(solutions, tests, returns_output=True, stops_early=stops_early, round_index=7)
    assert parts.executions.status.tolist() == whole.executions.status.tolist()
    assert parts.outputs == whole.outputs


def test_parts_are_as_large_as_a_suite_may_be_and_a_larger_test_stands_alone(monkeypatch):
    # As JSON a test of n characters takes n + 8 bytes here, and one byte more for each line's end.
    tests = [Test(0, text, "") for text in ("a" * 2, "b" * 1, "\n" * 1, "c" * 90, "d" * 2)]
    monkeypatch.setattr(sandbox_session, "SUITE_BYTES", 19)
    assert [[*part] for part in sandbox_session.fitting_parts(tests)] == [[0, 1], [2], [3], [4]]
    assert [*sandbox_session.fitting_parts(tests[:1])] == [range(1)]


def test_a_round_is_executed_once_and_another_round_again(session):
    solution, test = planted.solution("a", planted.LOOP_SUM), Test(0, "1\n5\n", "5\n")
    first = session.run([solution], [test]).executions
    assert session.run([solution], [test]).executions == first
    assert session.run([solution], [test], round_index=1).executions != first


def test_the_client_is_shared_and_renewed_without_losing_what_is_stored(connection, session, monkeypatch):
    assert sandbox_session.acquire_session(connection) is session
    sandbox_session.release_session(connection)
    solution, test = planted.solution("a", planted.FAST_SUM), Test(0, "2\n1 1\n", "2\n")
    first = session.run([solution], [test]).executions
    connected = []
    connect = sandbox_session.sandbox_client.connect
    monkeypatch.setattr(
        sandbox_session.sandbox_client, "connect", lambda *a, **k: connected.append(a) or connect(*a, **k)
    )
    monkeypatch.setattr(sandbox_session, "RENEWED_AFTER_CHARACTERS", 3)
    assert session.run([solution], [test]).executions == first
    assert len(connected) == 1


def test_threads_that_share_a_session_do_not_close_each_others_client(session, monkeypatch):
    monkeypatch.setattr(sandbox_session, "RENEWED_AFTER_CHARACTERS", 10)

    def run(number):
        before = session.spent
        test = planted.original(f"2\n{number} 1\n", f"{number + 1}\n")
        runs = session.run([planted.solution("a", planted.FAST_SUM)], [test], round_index=number)
        return runs.executions.status.tolist(), (session.spent - before).executions

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(run, range(24)))
    assert outcomes == [([[0]], 1)] * 24


def test_each_call_of_a_generator_has_an_output_of_its_own(session):
    megabytes = "class InputGenerator:\n    def generate_edge_cases(self):\n        return 'x' * (9 << 20)\n"
    inputs = draw_inputs(session, Generator("g", megabytes), ("generate_edge_cases",), calls=3, seed=0)
    assert [len(text) for text in inputs] == [(9 << 20) + 1] * 3


def test_what_was_spent_adds_up(session):
    before = session.spent
    session.run([planted.solution("a", planted.FAST_SUM)], [planted.original("1\n7\n", "7\n")] * 2)
    spent = session.spent - before
    assert spent.executions == 2
    assert 0 < spent.program_s < 1
    assert spent.waited_s > 0


def test_one_client_serves_all_of_a_build_in_one_process_and_is_closed_at_its_end(tmp_path, monkeypatch):
    opened, connect = [], sandbox_session.sandbox_client.connect

    def connected(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sandbox_session.sandbox_client, "connect", connected)
    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem("x")])
    flags = ("--source=jsonl", "--calls=1", "--repeats=1", "--min_robust_cv=0")
    run_quietly(*flags, f"--input={corpus}", f"--output={tmp_path / 'out'}")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["host"]["pairs"] > 0
    (client,) = opened
    with pytest.raises(RuntimeError, match="after shutdown"):
        client.run(RunRequest("print(1)", client.upload(Suite(("",), (None,)))))
