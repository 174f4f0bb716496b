"""Raw problems become records: JSON Lines, CodeContests Parquet, tidy texts, Python 2."""

import json
import pathlib

import pyarrow
import pyarrow.parquet
import pytest

from beam_pipelines.generators import generator_files
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Label, Problem
from beam_pipelines.sources import code_contests, jsonl, problem_packages
from beam_pipelines.sources.reading import tidy_problem
from beam_pipelines.stages.python2 import is_python2
from optimrl_jax.errors import UserError
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import code_contests_rows, write_parquet

SAMPLE = pathlib.Path(__file__).parents[2].parent / "shared" / "data" / "code_contests_sample.parquet"


def test_a_json_line_becomes_the_problem_it_describes():
    problem = planted.problem()
    assert jsonl.parse_line(json.dumps(planted.as_object(problem)).encode(), name="f:1") == problem


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
    ],
)
def test_a_broken_line_is_rejected_naming_the_field(change, detail):
    rejection = jsonl.parse_line(json.dumps(planted.as_object(planted.problem()) | change).encode(), name="f:1")
    assert (rejection.stage, rejection.reason, rejection.detail) == ("read", "broken_record", detail)
    assert rejection.problem_id == "planted/sum"


@pytest.mark.parametrize(("line", "reason"), [(b"{", "not_json"), (b"\xff", "not_json"), (b"[1]", "not_an_object")])
def test_a_line_that_is_no_object_is_rejected_under_its_number(line, reason):
    rejection = jsonl.parse_line(line, name="f:7")
    assert (rejection.problem_id, rejection.reason) == ("f:7", reason)


def test_blocks_of_lines_read_every_line_once(tmp_path):
    path = tmp_path / "many.jsonl"
    problems = [planted.problem(f"p{n}", statement="é" * n) for n in range(150)]
    path.write_text("\n".join(json.dumps(planted.as_object(one)) for one in problems))
    blocks = jsonl.line_blocks(path, limit=0)
    assert [block[3] for block in blocks] == [8] * 18 + [6]
    assert [record for block in blocks for record in jsonl.parse_line_block(block, BuildOptions())] == problems
    limited = jsonl.line_blocks(path, limit=70)
    assert sum(block[3] for block in limited) == 70


def test_code_contests_rows_keep_origins_limits_and_python_solutions(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [planted.problem("x")])
    (block,) = code_contests.parquet_blocks([path], limit=0)
    (problem,) = code_contests.read_block(block, BuildOptions())
    assert problem.id == "code_contests/planted/x"
    assert (problem.time_limit_s, problem.memory_limit_bytes, problem.category) == (1.5, 64_000_000, "rating_800")
    assert [test.origin for test in problem.tests] == ["public", "private"]
    assert [one.program for one in problem.correct] == list(planted.CORRECT_SUMS)
    assert [one.label for one in problem.solutions].count(Label.INCORRECT) == 1
    assert problem.trace[0].notes == (("other_language", 1),)


@pytest.mark.parametrize("limit", [0, 1, 5, 20, 41])
def test_blocks_of_row_groups_read_every_row_once(tmp_path, limit):
    files = [
        write_parquet(tmp_path / f"{n}.parquet", [planted.problem(f"{n}/{i}") for i in range(20)], row_group_size=17)
        for n in range(2)
    ]
    options = BuildOptions(limit=limit)
    found = [
        p.id
        for block in code_contests.parquet_blocks(files, limit=limit)
        for p in code_contests.read_block(block, options)
    ]
    assert len(found) == len(set(found)) == min(limit or 40, 40)
    assert set(found[:1]) <= {"code_contests/planted/0/0"}


def test_a_broken_row_is_rejected_with_its_name():
    (row,) = code_contests_rows([planted.problem()])
    row["public_tests"]["output"] = []
    rejection = code_contests.parse_row(row)
    assert rejection.problem_id == "code_contests/planted/sum"
    assert rejection.detail == "public_tests: expected as many outputs as inputs, got 0 and 1"


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b"PAR1 broken"), lambda path: None])
def test_a_broken_or_missing_parquet_file_is_one_line(tmp_path, make):
    make(tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"--input = .*: expected"):
        code_contests.read_code_contests(BuildOptions(input=str(tmp_path / "a.parquet")))


def test_a_row_group_that_is_damaged_inside_is_rejected_and_others_are_read(tmp_path):
    path = write_parquet(
        tmp_path / "a.parquet", [planted.problem(f"{i}", statement="x" * 5000) for i in range(6)], row_group_size=3
    )
    content = bytearray(path.read_bytes())
    first = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(1)
    start = first.dictionary_page_offset or first.data_page_offset
    content[start : start + first.total_compressed_size] = bytes(first.total_compressed_size)
    path.write_bytes(content)
    found = [
        record
        for block in code_contests.parquet_blocks([path], limit=0)
        for record in code_contests.read_block(block, BuildOptions())
    ]
    assert [record.id for record in found if isinstance(record, Problem)] == [
        f"code_contests/planted/{i}" for i in (3, 4, 5)
    ]
    (rejection,) = [record for record in found if not isinstance(record, Problem)]
    assert (rejection.problem_id, rejection.reason) == ("a.parquet/row_group_0", "broken_row_group")


def test_a_parquet_file_with_other_columns_is_one_line(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"name": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="expected CodeContests columns, without description"):
        code_contests.read_code_contests(BuildOptions(input=str(tmp_path / "a.parquet")))


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


@pytest.fixture
def package(tmp_path):
    """A small problem package on disk."""
    root = tmp_path / "sum"
    files = {
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
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_problem_package_becomes_a_problem(package):
    problem = problem_packages.parse_package(package)
    assert (problem.id, problem.checker, problem.time_limit_s) == ("packages/sum", "float_1e-6", 3.0)
    assert problem.memory_limit_bytes == 512 << 20
    assert [(test.origin, test.output) for test in problem.tests] == [("public", "1\n"), ("private", "3\n")]
    assert [(one.id, str(one.label)) for one in problem.solutions] == [
        ("accepted/a.py", "correct"),
        ("wrong_answer/w.py", "incorrect"),
    ]
    assert [one.id for one in problem.generators] == ["g.py"]
    assert problem.trace[0].notes == (("too_slow", 1),)


@pytest.mark.parametrize(
    ("file", "text", "reason", "detail"),
    [
        ("problem.yaml", None, "no_problem_yaml", ""),
        ("problem.yaml", "[", "broken_record", "while parsing"),
        ("problem.yaml", "- a", "broken_record", "expected a mapping"),
        ("problem.yaml", "validation: custom", "broken_record", "validation = 'custom': expected default"),
        ("problem.yaml", "limits: {memory: much}", "broken_record", "memory = 'much': expected int"),
        (".timelimit", "soon", "broken_record", "could not convert"),
        ("data/sample/1.ans", None, "broken_record", "expected the answer to 1.in"),
        ("problem_statement/problem.en.tex", None, "broken_record", "problem_statement: expected one of"),
    ],
)
def test_a_package_that_does_not_fit_is_rejected_with_a_reason(package, file, text, reason, detail):
    if text is None:
        (package / file).unlink()
    else:
        (package / file).write_text(text)
    rejection = problem_packages.parse_package(package)
    assert (rejection.problem_id, rejection.reason) == ("packages/sum", reason)
    assert detail in rejection.detail


@pytest.mark.real_data
@pytest.mark.skipif(not SAMPLE.exists(), reason="the CodeContests sample is not beside the checkout")
def test_the_real_sample_is_read_whole_and_none_of_it_is_python_2():
    found = [
        p
        for block in code_contests.parquet_blocks([SAMPLE], limit=0)
        for p in code_contests.read_block(block, BuildOptions())
    ]
    assert len(found) == 58
    assert all(isinstance(record, Problem) for record in found)
    assert sum(len(problem.correct) for problem in found) == 4655
    assert sum(len(problem.incorrect) for problem in found) == 62
    assert not any(is_python2(one.program) for problem in found[:10] for one in problem.solutions)
