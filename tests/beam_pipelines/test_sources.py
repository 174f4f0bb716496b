"""Raw problems become records: JSON Lines, CodeContests Parquet, tidy texts, Python 2."""

import json
import pathlib

import pyarrow
import pyarrow.parquet
import pytest

from beam_pipelines import pipeline
from beam_pipelines.generators import generator_files
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Label, Problem
from beam_pipelines.sources import evaluation_sets
from beam_pipelines.sources.reading import tidy_problem
from beam_pipelines.stages.python2 import is_python2
from optimrl_jax.jobs.errors import UserError
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import code_contests_rows, read_records, write_parquet

SAMPLE = pathlib.Path(__file__).parents[2].parent / "shared" / "data" / "code_contests_sample.parquet"


def write_lines(path, *lines) -> str:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


def read_line(tmp_path, line):
    (record,) = read_records("jsonl", input=write_lines(tmp_path / "f.jsonl", line))
    return record


@pytest.mark.parametrize(("written", "stored"), [("easy", 1), ("Medium", 2), ("HARD", 3), (1500, 1500), ("", 0)])
def test_a_difficulty_may_have_a_name(tmp_path, written, stored):
    line = planted.as_object(planted.problem()) | {"difficulty": written}
    assert read_line(tmp_path, line).difficulty == stored


def test_a_json_line_becomes_the_problem_it_describes(tmp_path):
    problem = planted.problem()
    assert read_line(tmp_path, planted.as_object(problem)) == problem


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"statement": 3}, "statement = '3': expected str, got int"),
        ({"tests": None}, "tests = 'None': expected list, got NoneType"),
        ({"solutions": [{"program": "1"}]}, "label: expected this field"),
        (
            {"solutions": [{"program": "1", "label": "fine"}]},
            "solutions[0].label = 'fine': expected correct or incorrect",
        ),
        ({"rating": "high"}, "rating = 'high': expected int, got str"),
        ({"rating": True}, "rating = 'True': expected int, got bool"),
        ({"difficulty": "tricky"}, "difficulty = 'tricky': expected a whole number, easy, medium or hard"),
        ({"tests": [{"input": "1", "output": None}]}, "output = 'None': expected str, got NoneType"),
    ],
)
def test_a_broken_line_is_rejected_naming_the_field(tmp_path, change, detail):
    rejection = read_line(tmp_path, planted.as_object(planted.problem()) | change)
    assert (rejection.stage, rejection.reason, rejection.detail) == ("read", "broken_record", detail)
    assert rejection.problem_id == "planted/sum"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rating": 3_000_000_000}, "out_of_range"),
        ({"difficulty": -(1 << 40)}, "out_of_range"),
        ({"memory_limit_bytes": 10**19}, "out_of_range"),
        ({"memory_limit_bytes": 0}, "out_of_range"),
        ({"time_limit_s": float("inf")}, "out_of_range"),
        ({"time_limit_s": float("nan")}, "out_of_range"),
        ({"time_limit_s": -1}, "out_of_range"),
        ({"statement": "\ud800"}, "not_unicode"),
        ({"category": "\ud800"}, "not_unicode"),
        ({"generators": ["\ud800"]}, "not_unicode"),
    ],
)
def test_a_value_that_the_dataset_could_not_hold_is_rejected_before_anything_runs(tmp_path, change, reason):
    rejection = read_line(tmp_path, planted.as_object(planted.problem()) | change)
    assert (rejection.problem_id, rejection.reason) == ("planted/sum", reason)


@pytest.mark.parametrize(("line", "reason"), [("{", "not_json"), ("[1]", "not_an_object"), ("[" * 100_000, "not_json")])
def test_a_line_that_is_no_object_is_rejected_under_its_number(tmp_path, line, reason):
    path = write_lines(tmp_path / "f.jsonl", planted.as_object(planted.problem()), line)
    _, rejection = read_records("jsonl", input=path)
    assert (rejection.problem_id, rejection.reason) == ("f.jsonl:2", reason)


def test_a_language_that_a_line_names_decides_whether_its_solution_is_read(tmp_path):
    problem = planted.as_object(planted.problem())
    problem["solutions"].append({"program": "int main() {}", "label": "incorrect", "language": "C++17", "id": "c"})
    path = write_lines(tmp_path / "f.jsonl", problem)
    (python_only,) = read_records("jsonl", input=path)
    assert "c" not in [solution.id for solution in python_only.solutions]
    assert python_only.trace[0].notes == (("other_language", 1),)
    (both,) = read_records("jsonl", input=path, languages="python3,cpp")
    assert (both.solutions[-1].id, both.solutions[-1].language) == ("c", "cpp")


def code_contests(tmp_path, row, **options):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "a.parquet")
    (record,) = read_records("code_contests", input=str(tmp_path / "a.parquet"), **options)
    return record


def test_code_contests_rows_keep_origins_limits_and_python_solutions(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [planted.problem("x")])
    (problem,) = read_records("code_contests", input=str(path))
    assert problem.id == "code_contests/planted/x"
    assert (problem.time_limit_s, problem.memory_limit_bytes, problem.category) == (1.5, 64_000_000, "rating_800")
    assert [test.origin for test in problem.tests] == ["public", "private"]
    assert [one.program for one in problem.correct] == list(planted.CORRECT_SUMS)
    assert [one.label for one in problem.solutions].count(Label.INCORRECT) == 1
    assert problem.trace[0].notes == (("other_language", 1),)
    # The rule of comparison is that of CodeContests: words in any letter case, numbers within 1e-5.
    assert problem.checker == "code_contests"


def test_code_contests_as_a_hub_lays_it_out_is_read_by_its_split(tmp_path):
    (tmp_path / "data").mkdir()
    for split in ("train", "valid", "test"):
        write_parquet(tmp_path / "data" / f"{split}-00000-of-00001.parquet", [planted.problem(split)])
    (problem,) = read_records("code_contests", input=str(tmp_path), split="valid")
    assert problem.id == "code_contests/planted/valid"
    assert len(read_records("code_contests", input=str(tmp_path), split="all")) == 3


def test_code_contests_solutions_come_in_the_languages_that_are_asked_for(tmp_path):
    (row,) = code_contests_rows([planted.problem()])
    problem = code_contests(tmp_path, row, languages="cpp")
    assert [(one.program, one.language) for one in problem.solutions] == [("int main() {}", "cpp")]
    assert problem.trace[0].notes == (("other_language", len(planted.CORRECT_SUMS) + 1),)


def test_code_contests_as_lists_of_records_with_names_of_languages_says_the_same(tmp_path):
    (row,) = code_contests_rows([planted.problem()])
    names = {2: "CPP", 3: "PYTHON3"}
    listed = row | {
        column: [
            {"language": names[language], "solution": program}
            for language, program in zip(row[column]["language"], row[column]["solution"], strict=True)
        ]
        for column in ("solutions", "incorrect_solutions")
    }
    for column in ("public_tests", "private_tests", "generated_tests"):
        pairs = zip(row[column]["input"], row[column]["output"], strict=True)
        listed[column] = [{"input": given, "output": wanted} for given, wanted in pairs]
    assert code_contests(tmp_path, listed) == code_contests(tmp_path, row)


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"solutions": {"language": [3], "solution": [None]}}, "broken_record", "solutions.solution[0] = 'None'"),
        ({"public_tests": {"input": ["1"], "output": [None]}}, "broken_record", "public_tests.output[0] = 'None'"),
        ({"generated_tests": {"input": [None], "output": ["1"]}}, "broken_record", "generated_tests.input[0] = 'None'"),
        ({"solutions": {"language": [None], "solution": ["1"]}}, "broken_record", "solutions.language[0] = 'None'"),
        (
            {"public_tests": {"input": ["1"], "output": []}},
            "broken_record",
            "of input as of output, got 1 and 0",
        ),
        ({"solutions": {"language": [3, 3], "solution": ["1"]}}, "broken_record", "got 2 and 1"),
    ],
)
def test_a_broken_row_is_rejected_with_its_name(tmp_path, change, reason, detail):
    (row,) = code_contests_rows([planted.problem()])
    rejection = code_contests(tmp_path, row | change)
    assert (rejection.problem_id, rejection.reason) == ("code_contests/planted/sum", reason)
    assert detail in rejection.detail


def test_a_null_in_a_list_costs_its_row_alone(tmp_path):
    broken, sound = code_contests_rows([planted.problem("broken"), planted.problem("sound")])
    broken["private_tests"] = {"input": [None, "1\n1\n"], "output": ["1\n", None]}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([broken, sound]), tmp_path / "a.parquet")
    rejection, problem = read_records("code_contests", input=str(tmp_path / "a.parquet"))
    assert (rejection.reason, problem.id) == ("broken_record", "code_contests/planted/sound")


@pytest.mark.parametrize(("column", "name"), [("input_file", "in.txt"), ("output_file", "out.txt")])
def test_a_problem_that_reads_or_writes_files_is_named_and_left_out(tmp_path, column, name):
    (row,) = code_contests_rows([planted.problem()])
    rejection = code_contests(tmp_path, row | {column: name})
    assert (rejection.reason, rejection.detail) == ("file_io", f"{column} = {name!r}")
    assert isinstance(code_contests(tmp_path, row | {column: ""}), Problem)


@pytest.mark.parametrize("limit", [None, {"seconds": 0, "nanos": 0}])
def test_a_time_limit_that_nobody_wrote_down_is_two_seconds(tmp_path, limit):
    (row,) = code_contests_rows([planted.problem()])
    assert code_contests(tmp_path, row | {"time_limit": limit}).time_limit_s == 2.0


def test_the_reading_of_a_source_knows_how_many_records_come_out(tmp_path):
    path = write_lines(tmp_path / "f.jsonl", planted.as_object(planted.problem()), "{", "", "[1]")
    reading = pipeline.SOURCES["jsonl"](BuildOptions(input=path))
    assert reading.expected_records == len(list(reading.records())) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [("g.json", "{"), ("g.json", "[]"), ("g.json", '{"a": "text"}'), ("g.json", '{"a": [1]}'), ("g.jsonl", '["a"]')],
)
def test_a_generators_file_of_another_shape_is_one_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=r"--generators = .*: expected"):
        generator_files.read_generators(str(tmp_path / name))


def test_generators_reach_their_problem_by_id_or_bare_name(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps({"sum": ["a", "b"], "planted/other": ["c"]}))
    lines = [{"problem": "sum", "program": "a", "id": "x"}, {"problem": "sum", "program": None}]
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, lines)))
    own = planted.problem()
    extended = generator_files.add_generators(own, generator_files.read_generators(str(tmp_path / "g.json")))
    assert [one.program for one in extended.generators] == [planted.SUM_GENERATOR, "a", "b"]
    extended = generator_files.add_generators(own, generator_files.read_generators(str(tmp_path / "g.jsonl")))
    assert [one.id for one in extended.generators] == ["g0", "x"]
    assert generator_files.add_generators(own, generator_files.read_generators("")) == own


def test_marks_and_carriage_returns_leave_texts():
    problem = planted.problem(
        correct=("\ufeffprint(1)\r\n",),
        tests=(planted.original("1\r\n2\r\n", "\ufeff3\r"),),
        statement="\ufeffRead.\r\n",
    )
    clean = tidy_problem(problem)
    assert clean.correct[0].program == "print(1)\n"
    assert (clean.tests[0].input, clean.tests[0].output) == ("1\n2\n", "3\n")
    assert clean.statement == "Read.\n"


@pytest.mark.parametrize(
    "program",
    [
        "print 'a'",
        "n = input()\nprint n\n",
        "for i in xrange(3):\n    pass\n",
        "n = int(raw_input())\nprint(n)\n",
        "try:\n    pass\nexcept ValueError, e:\n    pass\n",
        "import sys\nprint >>sys.stderr, 1\n",
        "d = {}\nfor k, v in d.iteritems():\n    pass\n",
    ],
)
def test_python_2_is_recognized(program):
    assert is_python2(program)


@pytest.mark.parametrize(
    "program",
    [
        *planted.CORRECT_SUMS,
        "xrange = range\nfor i in xrange(3):\n    print(i)\n",
        "def raw_input():\n    return input()\nprint(raw_input())\n",
        "for in range(3)",
        "(" * 500,
        "print\n",
    ],
)
def test_python_3_and_plain_syntax_errors_are_not_python_2(program):
    assert not is_python2(program)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_separators_inside_strings_do_not_cut_json_lines(tmp_path, separator):
    program = f"print('a{separator}b')"
    path = tmp_path / "g.jsonl"
    path.write_text(json.dumps({"problem": "x", "program": program}, ensure_ascii=False) + "\n\n", encoding="utf-8")
    ((generator,),) = generator_files.read_generators(str(path)).values()
    assert generator.program == program
    problem = planted.as_object(planted.problem(statement=f"a{separator}b"))
    path.write_text(json.dumps(problem, ensure_ascii=False) + "\n", encoding="utf-8")
    (record,) = read_records("jsonl", input=str(path))
    assert record.statement == f"a{separator}b"
    assert list(evaluation_sets.read_evaluation_sets(str(path)).values()) == [f"a{separator}b"]


@pytest.mark.real_data
@pytest.mark.skipif(not SAMPLE.exists(), reason="the CodeContests sample is not beside the checkout")
def test_the_real_sample_is_read_whole_and_none_of_it_is_python_2():
    found = read_records("code_contests", input=str(SAMPLE))
    assert len(found) == 58
    assert all(isinstance(record, Problem) for record in found)
    assert sum(len(problem.correct) for problem in found) == 4655
    assert sum(len(problem.incorrect) for problem in found) == 62
    assert not any(is_python2(one.program) for problem in found[:10] for one in problem.solutions)
