"""Generators from an endpoint: a real HTTP server that refuses, stalls and answers nonsense."""

import http.server
import json
import threading

import pytest

from beam_pipelines import sample_generators, storage
from beam_pipelines.generators import generator_files, generator_prompt
from beam_pipelines.records import Rejection
from optimrl_jax.jobs.command_line import run_command
from tests.beam_pipelines import planted

GOOD = json.dumps({"choices": [{"message": {"content": f"Here:\n```python\n{planted.SUM_GENERATOR}```"}}]})
WORDS = json.dumps({"choices": [{"message": {"content": "I cannot do that."}}]})


class Server:
    """Answers chat completions from a script of (status, body, headers); the last entry repeats."""

    def __init__(self, script):
        self.script = list(script)
        self.questions = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                outer.questions.append((self.path, json.loads(self.rfile.read(length))))
                status, body, headers = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def ask(tmp_path):
    servers = []
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps(planted.as_object(planted.problem())) + "\n")

    def run(script, *more, attempts=1):
        servers.append(Server(script))
        arguments = (
            "--source=jsonl", f"--input={corpus}", f"--endpoint={servers[-1].url}", "--model=m", "--concurrency=1",
            f"--output={tmp_path / 'g.jsonl'}", f"--attempts={attempts}", "--requests_per_s=1000", "--pause_s=0.001",
        )  # fmt: skip
        code = run_command(sample_generators.main, [*arguments, *more], name="sample_generators")
        return code, servers[-1].questions

    yield run
    for server in servers:
        server.close()


def stored(tmp_path):
    return [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]


def test_a_completion_is_stored_with_the_program_in_it(ask, tmp_path):
    code, questions = ask([(200, GOOD, {})])
    assert code == 0
    (line,) = stored(tmp_path)
    assert (line["problem"], line["outcome"]) == ("planted/sum", "program")
    assert line["program"].strip() == planted.SUM_GENERATOR.strip()
    ((path, question),) = questions
    assert path == "/v1/chat/completions"
    assert planted.problem().statement in question["messages"][0]["content"]
    assert generator_files.read_generators(str(tmp_path / "g.jsonl"))["planted/sum"][0].id == "planted/sum/0"


def test_overload_is_waited_for(ask, tmp_path):
    code, questions = ask([(429, "slow down", {"retry-after": "0"}), (503, "", {}), (200, GOOD, {})])
    assert (code, len(questions), stored(tmp_path)[0]["outcome"]) == (0, 3, "program")


def test_an_endpoint_that_stays_overloaded_stops_the_job_in_one_line(ask, capsys):
    code, questions = ask([(429, "slow down", {})], "--retries=2")
    assert (code, len(questions)) == (2, 3)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "expected an answer, got status 429" in line


@pytest.mark.parametrize(
    "body", ["<html>", "[]", "{}", '{"choices": []}', '{"choices": [{"message": {"content": 1}}]}']
)
def test_garbage_is_stored_as_such_and_gives_no_generator(ask, tmp_path, body):
    code, questions = ask([(200, body, {})], "--retries=1")
    assert (code, len(questions), stored(tmp_path)[0]["outcome"]) == (0, 2, "garbage")
    assert generator_files.read_generators(str(tmp_path / "g.jsonl")) == {}


def test_a_refusal_is_one_line(ask, capsys):
    assert ask([(401, "no key", {})])[0] == 2
    assert "expected status 200, got 401" in capsys.readouterr().err


def test_a_request_that_cannot_be_answered_does_not_stop_the_others(ask, tmp_path):
    code, questions = ask([(400, "too long", {}), (200, GOOD, {})], attempts=2)
    assert (code, len(questions)) == (0, 2)
    assert [(line["outcome"], line.get("detail")) for line in stored(tmp_path)] == [
        ("refused", "status 400: too long"), ("program", None),
    ]  # fmt: skip


def test_a_second_run_asks_only_for_what_is_missing(ask, tmp_path):
    ask([(200, WORDS, {}), (200, GOOD, {})], attempts=2)
    with (tmp_path / "g.jsonl").open("a") as lines:
        lines.write('{"id": "planted/sum/2", "half')
    code, questions = ask([(200, GOOD, {})], attempts=3)
    assert (code, len(questions)) == (0, 1)
    assert [line["id"] for line in stored(tmp_path)] == [f"planted/sum/{n}" for n in range(3)]
    assert [line["outcome"] for line in stored(tmp_path)] == ["no_program", "program", "program"]


def test_a_campaign_has_samples_of_its_own_from_verified_solutions(ask, tmp_path):
    verified = tmp_path / "verified"
    verified.mkdir()
    problem = planted.problem("seen", correct=(planted.FAST_SUM,), statement="Add all the numbers.")
    storage.write_record(problem, directory=str(verified))
    storage.write_record(Rejection("gone", "validate", "few_confirmed_correct"), directory=str(verified))
    _, first = ask([(200, GOOD, {})], f"--verified={verified}", "--campaign=correctness", attempts=2)
    _, second = ask([(200, GOOD, {})], f"--verified={verified}", "--campaign=optimization", attempts=2)
    assert (len(first), len(second)) == (2, 2)
    assert all(planted.FAST_SUM in question["messages"][0]["content"] for _, question in first + second)
    assert {line["id"] for line in stored(tmp_path)} == {
        f"planted/seen/{campaign}/{n}" for campaign in ("correctness", "optimization") for n in range(2)
    }
    generators = generator_files.read_generators(str(tmp_path / "g.jsonl"))["planted/seen"]
    assert [generator.campaign for generator in generators].count("correctness") == 2


def test_python_2_programs_are_not_shown():
    problem = planted.problem(correct=("print raw_input()\n", planted.FAST_SUM))
    assert [one.program for one in generator_prompt.shown_solutions(problem)] == [planted.FAST_SUM]


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--endpoint=nowhere", "--endpoint = 'nowhere': expected an http or https address"),
        ("--endpoint=http://127.0.0.1:9", "expected an answer, got ConnectError"),
        ("--model=", "--model = '': expected the name of a model"),
        ("--attempts=0", "--attempts = 0: expected a positive number"),
        ("--output=absent/g.jsonl", "expected a file in a directory"),
        ("--verified=.", "--verified = '.': expected records that build_dataset --until=STAGE left, found none"),
        ("--source=nowhere", "invalid choice: 'nowhere'"),
    ],
)
def test_mistakes_are_one_line(ask, capsys, flag, line):
    assert ask([(200, GOOD, {})], flag, "--retries=0")[0] == 2
    assert line in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        ("```python\nclass InputGenerator:\n    pass\n```", "class InputGenerator:\n    pass\n"),
        ("```\na\n```\n```py\nclass InputGenerator: ...\n```\n```\nb\n```", "class InputGenerator: ...\n"),
        ("class InputGenerator: ...", "class InputGenerator: ...\n"),
        ("```python\nprint(1)\n```", None),
        ("", None),
    ],
)
def test_the_program_is_the_last_block_with_the_class(completion, program):
    assert generator_prompt.generator_program_of(completion) == program


def test_the_seed_draws_the_solution_that_is_shown():
    problem = planted.problem()
    shown = {generator_prompt.generator_prompt(problem, seed=seed) for seed in range(30)}
    assert len(shown) == len(problem.correct)
