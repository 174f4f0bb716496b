"""Small original records in the layout of every public problem set, as data and on disk."""

import base64
import json
import pathlib
import pickle
import zlib

from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import write_corpus, write_parquet
from tests.sandbox import notes

DOUBLE = "print(2 * int(input()))\n"

PLUS = {
    "id": "7_A",
    "source": "Codeforces",
    "title": "Double",
    "description": "Print twice the number.",
    "time_limit": 3000,
    "memory_limit": 128,
    "checker": "",
    "correct_submissions": [
        {"code": DOUBLE, "language": "py3"},
        {"code": "print 2 * input()", "language": "py2"},
        {"code": "int main() {}", "language": "cpp"},
    ],
    "incorrect_submissions": [{"code": "print(2)", "language": "py3"}],
    "test_cases": [{"input": "1\n", "output": "2\n"}],
}

TACO = {
    "question": "Print twice the number.",
    "solutions": json.dumps([DOUBLE, "n = int(input())\nprint(n + n)\n"]),
    "starter_code": "",
    "input_output": json.dumps({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", ["4"]]}),
    "difficulty": "EASY",
    "tags": "['Mathematics', 'Sorting']",
    "time_limit": "1.5 seconds",
    "memory_limit": "64.0 megabytes",
}


def packed(value: object) -> str:
    """A value as LiveCodeBench packs its private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


LIVE = {
    "question_id": "abc_1",
    "question_content": "Print twice the number.",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
    "private_test_cases": packed(json.dumps([{"input": "5\n", "output": "10\n", "testtype": "stdin"}])),
}

CODEFORCES = {
    "id": "7/A",
    "title": "Double",
    "description": "Print twice the number.",
    "input_format": "A number.",
    "output_format": "Its double.",
    "interaction_format": None,
    "note": None,
    "examples": [{"input": "1\n", "output": "2\n"}],
    "official_tests": [{"input": "1\n", "output": "2\n"}, {"input": "5\n", "output": "10\n"}],
    "time_limit": 1.5,
    "memory_limit": 64.0,
    "rating": 900,
    "input_mode": "stdio",
    "tags": ["math", "math"],
    "generated_checker": None,
}

LEGACY = {
    "problem.yaml": "name: Sum\nlimits: {memory: 512}\nvalidator_flags: float_tolerance 1e-6\n",
    "problem_statement/problem.en.tex": "Print the sum of all the numbers.",
    "data/sample/1.in": "1\n1\n",
    "data/sample/1.ans": "1\n",
    "data/secret/group/2.in": "2\n1 2\n",
    "data/secret/group/2.ans": "3\n",
    "submissions/accepted/a.py": planted.FAST_SUM,
    "submissions/wrong_answer/w.py": planted.WRONG_ANSWER,
    "submissions/time_limit_exceeded/t.py": planted.SLOW_SUM,
    "submissions/accepted/a.cpp": "int main() {}",
    "generators/g.py": planted.SUM_GENERATOR,
    ".timelimit": "3\n",
}
LATER = LEGACY | {
    "problem.yaml": "problem_format_version: 2025-09\nname: {en: Sum}\nkeywords: [sums]\nsource: {name: Cup}\n",
    "statement/problem.en.md": "Print the sum of all the numbers.",
}

# Interactive, in two passes; one program fails in the first pass, one in the second, one waits for ever.
NOTES = {
    "problem.yaml": "problem_format_version: 2025-09\nname: Notes\ntype: [interactive, multi-pass]\n",
    "statement/problem.en.md": "Leave a note that is not the number, and find the number again.",
    "data/secret/1.in": "hide 37",
    "data/secret/1.ans": "the answer",
    "data/secret/2.in": "hide 0",
    "data/secret/2.ans": "the answer",
    "output_validator/validate.py": notes.INTERACTOR,
    "submissions/accepted/doubled.py": notes.RIGHT,
    "submissions/accepted/negated.py": notes.program_of(
        "print('!', -1 - sum(ask(bit) << bit for bit in range(7)), flush=True)", "print('!', -1 - ask(0), flush=True)"
    ),
    "submissions/wrong_answer/tells.py": notes.program_of("print('!', ask(0) and 37, flush=True)", notes.FIND),
    "submissions/wrong_answer/forgets.py": notes.program_of(notes.HIDE, "print('!', ask(0), flush=True)"),
    "submissions/run_time_error/dies.py": notes.program_of(notes.HIDE, "1 / 0"),
    "submissions/time_limit_exceeded/waits.py": notes.program_of(notes.HIDE, "input()"),
    "generators/number.py": "import random, sys\nrandom.seed(sys.argv[1])\nprint('hide', random.randint(0, 127))\n",
    "generators/generators.yaml": "data:\n- n: number.py {seed}\n",
}

MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<problem short-name="sum">
  <statements>
    <statement language="english" path="statements/english/problem.tex" type="application/x-tex"/>
  </statements>
  <judging input-file="" output-file="">
    <testset name="tests">
      <time-limit>1500</time-limit><memory-limit>67108864</memory-limit><test-count>2</test-count>
      <input-path-pattern>tests/%02d</input-path-pattern><answer-path-pattern>tests/%02d.a</answer-path-pattern>
      <tests><test method="manual" sample="true"/><test cmd="gen 1" method="generated"/></tests>
    </testset>
  </judging>
  <tags><tag value="sums"/></tags>
  <assets>
    <checker name="std::rcmp6.cpp" type="testlib"><source path="files/check.cpp" type="cpp.g++17"/></checker>
    <solutions>
      <solution tag="main"><source path="solutions/a.py" type="python.3"/></solution>
      <solution tag="accepted"><source path="solutions/a.cpp" type="cpp.g++17"/></solution>
      <solution tag="wrong-answer"><source path="solutions/w.py" type="python.pypy3"/></solution>
      <solution tag="time-limit-exceeded"><source path="solutions/t.py" type="python.3"/></solution>
    </solutions>
  </assets>
</problem>
"""
POLYGON = {
    "problem.xml": MANIFEST,
    "statements/english/problem.tex": "Print the sum.",
    "tests/01": "1\n1\n",
    "tests/01.a": "1\n",
    "tests/02": "2\n1 2\n",
    "tests/02.a": "3\n",
    "solutions/a.py": planted.FAST_SUM,
    "solutions/a.cpp": "int main() {}",
    "solutions/w.py": planted.WRONG_ANSWER,
    "solutions/t.py": planted.SLOW_SUM,
}


ROWS = {
    "code_contests_plus": PLUS,
    "taco": TACO,
    "apps": TACO,
    "live_code_bench": LIVE,
    "codeforces": CODEFORCES,
}
PACKAGES = {"packages": LATER, "polygon": POLYGON}


def write_files(root, files):
    """Writes files by their names below a directory, and returns it; a text of None leaves a file out."""
    for name, text in files.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


def write_layout(source: str, root: pathlib.Path) -> pathlib.Path:
    """Writes one problem as the source's publisher lays it out, and returns what `--input` has to name."""
    if source in PACKAGES:
        return write_files(root / "sum", PACKAGES[source])
    if source == "code_contests":
        return write_parquet(root / "train.parquet", [planted.problem()])
    path = root / "train.jsonl"
    if source == "jsonl":
        return write_corpus(path, [planted.problem()])
    path.write_text(json.dumps(ROWS[source]) + "\n")
    return path
