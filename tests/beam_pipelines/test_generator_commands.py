"""Generators that are started with arguments: which commands a campaign runs, and what comes of them."""

import json
import subprocess
import sys

import pytest

from beam_pipelines.generators import harness
from beam_pipelines.records import Generator

METHODS = ("generate_edge_cases", "generate_small_cases", "generate_sample_cases")
LARGE = ("generate_edge_cases", "generate_large_cases", "generate_sample_cases")
LINE = Generator("line.py", "import sys\nprint(*sys.argv)\n", commands=("1 {seed}", "2 'a b'", "3 {seed:2} {seed:3}"))


def run_wrapper(generator, methods=METHODS, **parts):
    program = harness.wrapper_program(generator, methods, **parts)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_commands_follow_each_other_with_seeds_of_their_own():
    assert run_wrapper(LINE, calls=2, seed=10) == [
        "line.py 1 10\n",
        "line.py 2 a b\n",
        "line.py 3 14 15\n",
        "line.py 1 13\n",
        "line.py 2 a b\n",
        "line.py 3 17 18\n",
    ]


def test_a_campaign_of_large_cases_begins_with_the_last_command():
    assert run_wrapper(LINE, LARGE, calls=1, seed=0)[0] == "line.py 3 2 3\n"


def test_one_call_prints_what_all_calls_print_at_its_place():
    whole = run_wrapper(LINE, calls=2, seed=10)
    assert [run_wrapper(LINE, calls=2, seed=10, only=number) for number in range(6)] == [[text] for text in whole]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import sys\nsys.stdout.buffer.write(b'1\\n')\n", "1\n"),
        ("import sys\nprint(2)\nsys.exit(0)\n", "2\n"),
        ("import random\nprint(random.randint(1, 10**9))\n", None),
        ("if __name__ == '__main__':\n    print('é')\n", "é\n"),
    ],
)
def test_a_program_prints_as_it_would_on_its_own_and_repeats_itself(program, expected):
    generator = Generator("g.py", program, commands=("",))
    (first,) = run_wrapper(generator, calls=1, seed=7, only=0)
    assert [first] == run_wrapper(generator, calls=1, seed=7, only=0)
    assert expected in (first, None)


def test_a_generator_that_fails_fails_as_a_program():
    failing = Generator("g.py", "import sys\nsys.exit(3)\n", commands=("",))
    program = harness.wrapper_program(failing, METHODS, calls=1, seed=0)
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=20).returncode == 3


def test_a_lone_quotation_mark_does_not_stop_a_command():
    assert harness.choose_commands(Generator("g.py", "", commands=("it's",)), METHODS, calls=1, seed=0)[0] == [
        "g.py",
        "it's",
    ]
