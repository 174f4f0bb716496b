"""Public problem sets: small original records in the layout of each become problems."""

import base64
import dataclasses
import json

import pyarrow
import pyarrow.parquet
import pytest

from beam_pipelines import pipeline
from beam_pipelines.dmc_optim import features
from beam_pipelines.records import Problem
from beam_pipelines.sources.languages import language_named, with_main_class
from beam_pipelines.sources.live_code_bench import unpack_text
from beam_pipelines.sources.reading import BrokenRecordError, tags_field
from sandbox import client
from sandbox.protocol import JudgeProgram, RunRequest, Verdict, from_json, suite_judged_by
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import read_records
from tests.beam_pipelines.layouts import CODEFORCES, DOUBLE, LIVE, PLUS, TACO, packed, write_layout


def read_one(tmp_path, source, row, **options):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (record,) = read_records(source, input=str(path), **options)
    return record


def test_a_row_of_code_contests_plus_becomes_a_problem(tmp_path):
    problem = read_one(tmp_path, "code_contests_plus", PLUS)
    assert (problem.id, problem.category) == ("code_contests_plus/7_A", "Codeforces")
    assert (problem.time_limit_s, problem.memory_limit_bytes) == (3.0, 128 << 20)
    assert problem.statement == "Double\n\nPrint twice the number."
    assert [one.id for one in problem.solutions] == [
        "correct_submissions/0",
        "correct_submissions/1",
        "incorrect_submissions/0",
    ]
    assert problem.trace[0].notes == (("other_language", 1), ("other_generators", 0))
    assert [(test.input, test.output) for test in problem.tests] == [("1\n", "2\n")]


def test_a_checker_of_the_problems_own_judges_with_the_header_that_it_includes(tmp_path):
    row = PLUS | {"checker": "#include <testlib.h>\nint main() {}"}
    missing = read_one(tmp_path, "code_contests_plus", row)
    assert (missing.reason, "--testlib" in missing.detail) == ("special_judge", True)
    header = tmp_path / "testlib.h"
    header.write_text("// a header\n")
    judge = from_json(JudgeProgram, read_one(tmp_path, "code_contests_plus", row, testlib=str(header)).checker)
    assert (judge.program, judge.language, judge.convention) == (row["checker"], "cpp", "testlib")
    assert judge.files == {"testlib.h": "// a header\n"}


@pytest.mark.parametrize("script", ["./gen 5 -n 1 > 1.in\n\n# large\n./gen 7\n./gen 7", ["gen 5 -n 1", "gen 7 | cat"]])
def test_a_generator_of_code_contests_plus_comes_with_its_commands(tmp_path, script):
    header = tmp_path / "testlib.h"
    header.write_text("// a header\n")
    row = PLUS | {"generator": '#include "testlib.h"\nint main() {}', "generator_cmd": script}
    (generator,) = read_one(tmp_path, "code_contests_plus", row, testlib=str(header)).generators
    assert (generator.language, generator.commands) == ("cpp", ("5 -n 1", "7"))
    assert generator.files == {"testlib.h": "// a header\n"}
    for left_out in (row, row | {"generator_cmd": None}):
        problem = read_one(tmp_path, "code_contests_plus", left_out, testlib="" if left_out is row else str(header))
        assert (problem.generators, dict(problem.trace[0].notes)["other_generators"]) == ((), 1)


def test_a_checker_of_the_problems_own_is_compared_or_left_out_on_demand(tmp_path):
    row = PLUS | {"checker": "int main() {}"}
    compared = read_one(tmp_path, "code_contests_plus", row, special_judges="compare")
    assert (compared.id, compared.checker) == ("code_contests_plus/7_A", "code_contests")
    assert read_one(tmp_path, "code_contests_plus", row, special_judges="reject").reason == "special_judge"


def test_a_row_of_taco_becomes_a_problem_named_after_its_place(tmp_path):
    problem = read_one(tmp_path, "taco", TACO)
    assert (problem.id, problem.category, problem.checker) == ("taco/train.jsonl:1", "easy", "code_contests")
    assert (problem.time_limit_s, problem.memory_limit_bytes, problem.difficulty) == (1.5, 64 << 20, 1)
    assert [one.program for one in problem.correct] == [DOUBLE, "n = int(input())\nprint(n + n)\n"]
    assert [(test.input, test.output) for test in problem.tests] == [("1\n", "2\n"), ("2\n3\n", "4\n")]


def test_a_row_of_apps_is_named_by_its_number_and_may_lack_solutions(tmp_path):
    row = TACO | {"problem_id": 4000, "solutions": "", "time_limit": None, "memory_limit": None}
    problem = read_one(tmp_path, "apps", row | {"difficulty": "competition"})
    assert (problem.id, problem.solutions, problem.difficulty) == ("apps/4000", (), 3)
    assert read_one(tmp_path, "taco", row | {"difficulty": "UNKNOWN_DIFFICULTY"}).difficulty == 0
    assert (problem.time_limit_s, problem.memory_limit_bytes) == (2.0, 256 << 20)


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"input_output": json.dumps({"fn_name": "f", "inputs": [], "outputs": []})}, "functional_tests", "'f'"),
        ({"input_output": '{"inputs": ["1"], "outputs": []}'}, "broken_record", "for each of 1 inputs, got 0"),
        ({"input_output": "{" * 100_000}, "broken_record", "input_output: expected JSON"),
        ({"input_output": "[]"}, "broken_record", "expected a JSON dict, got list"),
        ({"input_output": '{"inputs": [null], "outputs": ["1"]}'}, "broken_record", "inputs[0] = 'None'"),
        ({"solutions": "[3]"}, "broken_record", "solutions[0] = '3'"),
        ({"question": None}, "broken_record", "question = 'None'"),
    ],
)
def test_a_row_of_taco_that_does_not_fit_is_rejected_with_a_reason(tmp_path, change, reason, detail):
    rejection = read_one(tmp_path, "taco", TACO | change)
    assert rejection.reason == reason
    assert detail in rejection.detail


def test_a_row_of_live_code_bench_becomes_statement_and_tests(tmp_path):
    problem = read_one(tmp_path, "live_code_bench", LIVE)
    assert (problem.id, problem.category, problem.solutions) == ("live_code_bench/abc_1", "easy", ())
    assert problem.difficulty == 1
    assert [(test.input, test.output, test.origin) for test in problem.tests] == [
        ("1\n", "2\n", "public"),
        ("5\n", "10\n", "private"),
    ]


def test_functions_that_live_code_bench_calls_are_named(tmp_path):
    row = LIVE | {"public_test_cases": json.dumps([{"input": "1", "output": "2", "testtype": "functional"}])}
    assert read_one(tmp_path, "live_code_bench", row).reason == "functional_tests"


@pytest.mark.parametrize("value", [pytest.fail, ["a"], ("a", "b"), 5])
def test_a_packed_value_that_is_no_text_is_never_constructed(value):
    with pytest.raises(ValueError, match="a pickle"):
        unpack_text(packed(value))


@pytest.mark.parametrize("text", ["", "zzz", "!", base64.b64encode(b"plain").decode()])
def test_what_is_not_packed_is_said_to_be_none(tmp_path, text):
    with pytest.raises(ValueError):
        unpack_text(text)
    assert read_one(tmp_path, "live_code_bench", LIVE | {"private_test_cases": text}).reason == "broken_record"


def test_a_row_of_codeforces_becomes_statement_and_tests_without_repeating_samples(tmp_path):
    problem = read_one(tmp_path, "codeforces", CODEFORCES)
    assert (problem.id, problem.rating, problem.category) == ("codeforces/7/A", 900, "rating_800")
    assert (problem.time_limit_s, problem.memory_limit_bytes) == (1.5, 64 << 20)
    assert problem.statement == "Double\n\nPrint twice the number.\n\nInput\nA number.\n\nOutput\nIts double.\n"
    assert [(test.input, test.origin) for test in problem.tests] == [("1\n", "public"), ("5\n", "private")]


@pytest.mark.parametrize(
    ("output", "verdict"), [("3\n", Verdict.SUCCESS), ("4\n", Verdict.WRONG_OUTPUT), ("", Verdict.WRONG_OUTPUT)]
)
def test_a_generated_checker_of_codeforces_judges_by_what_it_prints(tmp_path, output, verdict):
    checker = "import sys\na, b, c = (int(open(name).read()) for name in sys.argv[1:])\nprint(int(a + b == c))"
    problem = read_one(tmp_path, "codeforces", CODEFORCES | {"generated_checker": checker})
    suite = suite_judged_by(problem.checker, inputs=["1\n"], expected=["2\n"])
    with client.connect("local", workers=1) as connected:
        (result,) = connected.run(RunRequest(f"print({output!r}, end='')", connected.upload(suite))).results
    assert result.verdict is verdict


@pytest.mark.parametrize(
    ("program", "run"),
    [
        ("class Sum {\n  static int n;\n  public static void main(String[] a) {}\n}", "class Main {"),
        ("class A {}\npublic class Sum { public static void main(String... a) { new Sum(); } }", "new Main()"),
        ("public class Main { public static void main(String[] a) {} }", "public class Main {"),
        ("interface Empty {}", "interface Empty {}"),
    ],
)
def test_the_class_of_a_java_program_gets_the_name_under_which_it_is_started(program, run):
    assert run in with_main_class(program)
    assert "Sum" not in with_main_class(program)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interaction_format": "Ask."}, "interactive"),
        ({"input_mode": "file"}, "file_io"),
        ({"examples": [{"input": "1\n", "output": None}]}, "broken_record"),
    ],
)
def test_a_row_of_codeforces_that_cannot_be_compared_is_named(tmp_path, change, reason):
    assert read_one(tmp_path, "codeforces", CODEFORCES | change).reason == reason


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("Python 3", "python3"),
        ("python3.8", "python3"),
        ("PyPy 3-64", "pypy3"),
        ("py2", "python2"),
        ("C++17 (GCC 7-32)", "cpp"),
        ("cpp g++17", "cpp"),
        ("Java 8", "java"),
        ("JavaScript (Node.js 12)", "javascript"),
        ("Go 1.19", "go"),
        ("Rust 2021", "rust"),
        ("C#", ""),
        ("GNU C11", ""),
        ("c", "c"),
        ("Pascal", ""),
    ],
)
def test_languages_are_known_by_their_usual_names(name, language):
    assert language_named(name) == language


def test_public_sets_in_parquet_are_read_as_well(tmp_path):

    for source, row in (("code_contests_plus", PLUS), ("codeforces", CODEFORCES), ("taco", TACO)):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / f"{source}.parquet")
        (problem,) = read_records(source, input=str(tmp_path / f"{source}.parquet"))
        assert isinstance(problem, Problem)


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        ("code_contests", ("greedy",)),
        ("taco", ("Mathematics", "Sorting")),
        ("codeforces", ("math",)),
        ("packages", ("sums",)),
        ("polygon", ("sums",)),
        ("code_contests_plus", ()),
    ],
)
def test_tags_of_a_source_are_carried(tmp_path, source, tags):
    (problem,) = read_records(source, input=str(write_layout(source, tmp_path)))
    assert problem.tags == tags
    assert features.example_of(dataclasses.replace(problem, timings=planted.timings(1, 1)))["tags"].tolist() == [*tags]


@pytest.mark.parametrize("tags", ["[1]", "[", "__import__('os')", [1], "'a'"])
def test_tags_of_another_shape_are_rejected(tags):
    with pytest.raises(BrokenRecordError, match="tags"):
        tags_field({"tags": tags}, "tags")


@pytest.mark.parametrize("source", [name for name in pipeline.SOURCES if name != "mini"])
def test_one_problem_in_the_layout_of_every_source_is_read(source, tmp_path):
    (record,) = read_records(source, input=str(write_layout(source, tmp_path)))
    assert isinstance(record, Problem)
    assert record.tests
