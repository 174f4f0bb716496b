"""Problem packages of all three formats, and Polygon's: small original ones on disk become problems."""

import pytest

from beam_pipelines.records import Problem
from beam_pipelines.sources.packages.programs import matches
from sandbox.protocol import JudgeProgram, ProblemPrograms, from_json
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import read_records
from tests.beam_pipelines.layouts import LATER, LEGACY, MANIFEST, POLYGON, write_files


def read_package(tmp_path, files, source="packages", **options):
    (record,) = read_records(source, input=str(write_files(tmp_path / "sum", files)), **options)
    return record


def test_a_legacy_package_becomes_a_problem(tmp_path):
    problem = read_package(tmp_path, LEGACY)
    assert (problem.id, problem.checker, problem.time_limit_s) == ("packages/sum", "kattis:float_tolerance=1e-06", 3.0)
    assert problem.memory_limit_bytes == 512 << 20
    assert [(test.origin, test.output) for test in problem.tests] == [("public", "1\n"), ("private", "3\n")]
    assert [(one.id, str(one.label)) for one in problem.solutions] == [
        ("accepted/a.py", "correct"),
        ("wrong_answer/w.py", "incorrect"),
    ]
    assert [one.id for one in problem.generators] == ["g.py"]
    assert dict(problem.trace[0].notes) == {
        "too_slow": 1,
        "several_files": 0,
        "other_language": 1,
        "other_generators": 0,
    }


@pytest.mark.parametrize("version", ["2023-07", "2023-07-draft", "2025-09"])
def test_a_later_package_compares_tokens_in_any_letter_case_by_default(tmp_path, version):
    manifest = LATER["problem.yaml"].replace("2025-09", version)
    problem = read_package(tmp_path, LATER | {"problem.yaml": manifest})
    assert (problem.checker, problem.category) == ("kattis", "Cup")


def test_compiled_programs_come_where_they_are_asked_for(tmp_path):
    files = LEGACY | {"submissions/accepted/B.java": "class B {}", "submissions/wrong_answer/c.cc": "int main() {}"}
    problem = read_package(tmp_path, files, languages="python3,cpp")
    assert {(one.id, one.language) for one in problem.solutions} == {
        ("accepted/a.py", "python3"),
        ("accepted/a.cpp", "cpp"),
        ("wrong_answer/w.py", "python3"),
        ("wrong_answer/c.cc", "cpp"),
    }
    files |= {"submissions/accepted/d.c": "int main() { return 0; }"}
    assert [one.id for one in read_package(tmp_path, files, languages="c").solutions] == ["accepted/d.c"]


def test_a_folder_with_one_source_is_a_program_and_one_with_several_is_counted(tmp_path):
    files = LEGACY | {
        "submissions/accepted/one/main.py": planted.FAST_SUM,
        "submissions/accepted/one/notes.txt": "fast",
        "submissions/accepted/two/main.py": planted.FAST_SUM,
        "submissions/accepted/two/more.py": "",
    }
    problem = read_package(tmp_path, files)
    assert "accepted/one" in [one.id for one in problem.solutions]
    assert dict(problem.trace[0].notes)["several_files"] == 1


def test_expectations_say_what_a_submission_is(tmp_path):
    expectations = """
mixed/right.py: {permitted: [AC]}
mixed/{wrong,crash}*: {required: [WA, RTE]}
wrong_answer/slow.py: {required: [TLE]}
accepted/odd.txt: {language: python3}
"""
    files = LEGACY | {
        "submissions/submissions.yaml": expectations,
        "submissions/mixed/right.py": planted.FAST_SUM,
        "submissions/mixed/wrong_1.py": planted.WRONG_ANSWER,
        "submissions/mixed/crash.py": "1 / 0",
        "submissions/mixed/unknown.py": "1",
        "submissions/mixed/marked.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER, RUN-ERROR\n",
        "submissions/mixed/late.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER, TIMELIMIT\n",
        "submissions/wrong_answer/slow.py": "2",
        "submissions/accepted/odd.txt": planted.FAST_SUM,
    }
    found = {one.id: str(one.label) for one in read_package(tmp_path, files).solutions}
    assert found == {
        "accepted/a.py": "correct",
        "accepted/odd.txt": "correct",
        "mixed/right.py": "correct",
        "mixed/wrong_1.py": "incorrect",
        "mixed/crash.py": "incorrect",
        "mixed/marked.py": "incorrect",
        "wrong_answer/w.py": "incorrect",
    }


@pytest.mark.parametrize(
    ("pattern", "name", "is_matched"),
    [
        ("accepted", "accepted/a.py", True),
        ("accepted/*", "accepted/a.py", True),
        ("*", "accepted/a.py", True),
        ("accepted/{a,b}.{py,cpp}", "accepted/b.cpp", True),
        ("accepted/b", "accepted/a.py", False),
        ("accepted/*/x", "accepted/a.py", False),
    ],
)
def test_globs_match_a_path_or_a_directory_above_it(pattern, name, is_matched):
    assert matches(pattern, name) is is_matched


def test_generators_that_are_started_with_arguments_keep_their_commands(tmp_path):
    settings = """
solution: /submissions/accepted/a.cpp
data:
  sample: {data: {'1': {in: "1"}}}
  secret:
    data:
      - small: line.py 3 {seed}
      - many: {generate: "line.py {count} {seed:2}", count: 2}
      - nested: {data: [{big: other.cpp 7}]}
"""
    files = LEGACY | {
        "generators/line.py": "import sys\nprint(*sys.argv[1:])\n",
        "generators/other.cpp": "int main() {}",
        "generators/unused.py": "print(1)",
        "generators/generators.yaml": settings,
    }
    problem = read_package(tmp_path, files)
    assert [(one.id, one.commands, one.language) for one in problem.generators] == [
        ("g.py", (), "python3"),
        ("line.py", ("3 {seed}", "1 {seed:2}", "2 {seed:2}"), "python3"),
        ("other.cpp", ("7",), "cpp"),
    ]
    assert dict(problem.trace[0].notes)["other_generators"] == 1


def test_a_generator_of_several_files_is_named_by_its_list_or_its_directory(tmp_path):
    settings = """
generators: {range: [range.cpp, bounds.h], lost: [lost.cpp, gone.h], outside: [../submissions/accepted/a.cpp]}
data: {secret: {data: [{a: range 5}, {b: made/ 1}, {c: made 3}, {d: lost 1}, {e: outside 1}, {f: /generators/own 2}]}}
"""
    files = LEGACY | {
        "generators/g.py": None,
        "generators/generators.yaml": settings,
        "generators/range.cpp": "main",
        "generators/bounds.h": "header",
        "generators/lost.cpp": "",
        "generators/made/made.py": "import more",
        "generators/made/more.txt": "1",
        "generators/own/own.c": "int main() {}",
        "generators/scripted/a.py": "",
        "generators/scripted/run": "",
    }
    problem = read_package(tmp_path, files)
    assert {one.id: (one.language, one.commands, one.files) for one in problem.generators} == {
        "range": ("cpp", ("5",), {"bounds.h": "header"}),
        "made": ("python3", ("3",), {"more.txt": "1"}),
        "own": ("c", ("2",), {}),
    }
    assert dict(problem.trace[0].notes)["other_generators"] == 1, "of one that lacks a file, its main file is left"


@pytest.mark.parametrize(
    ("settings", "checker"),
    [
        ("validator_flags: case_sensitive space_change_sensitive", "kattis:case_sensitive:space_change_sensitive"),
        ("validator_flags: float_tolerance 5e-7", "kattis:float_tolerance=5e-07"),
        ("validator_flags: float_tolerance 0.5", "kattis:float_tolerance=0.5"),
        (
            "validator_flags: float_absolute_tolerance 1e-6 float_relative_tolerance 1e-9",
            "kattis:float_absolute_tolerance=1e-06:float_relative_tolerance=1e-09",
        ),
        ("validation: default", "kattis"),
        ("{}", "kattis"),
    ],
)
def test_arguments_of_the_default_validator_are_kept(tmp_path, settings, checker):
    assert read_package(tmp_path, LEGACY | {"problem.yaml": settings}).checker == checker


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data/test_group.yaml", "output_validator_args: [float_tolerance, 1E-6]"),
        ("data/secret/test_group.yaml", "output_validator_args: [float_tolerance 1e-6]"),
        ("data/secret/group/2.yaml", "output_validator_args: [float_tolerance, '1e-6']"),
        ("data/testdata.yaml", "output_validator_flags: float_tolerance 1e-6"),
    ],
)
def test_arguments_may_stand_with_a_group_or_a_test(tmp_path, file, text):
    problem = read_package(tmp_path, LATER | {file: text})
    assert problem.checker == "kattis:float_tolerance=1e-06"
    assert problem.tests[-1].origin == "private"


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"problem.yaml": "["}, "broken_record", "while parsing"),
        ({"problem.yaml": "- a"}, "broken_record", "expected a mapping"),
        ({"problem.yaml": "validation: custom"}, "special_judge", "output_validators: no source"),
        ({"problem.yaml": "validation: custom", "output_validators/a/v.py": "", "output_validators/b/v.py": ""},
         "special_judge", "several validators"),
        ({"problem.yaml": "validation: custom", "output_validators/v/v.py": "", "output_validators/v/run": ""},
         "special_judge", "as it is"),
        ({"problem.yaml": "validation: custom interactive"}, "interactive", "output_validators: no source"),
        ({"problem.yaml": "type: interactive"}, "interactive", "no source"),
        ({"problem.yaml": "type: [interactive, multi-pass]"}, "interactive", "output_validator: no source"),
        ({"problem.yaml": "type: [interactive, multi-pass]\nlimits: {validation_passes: 0}",
          "output_validator/v.py": ""}, "broken_record", "suite.interactor.passes = 0"),
        ({"problem.yaml": "type: [scoring, multi-pass]"}, "special_judge", "output_validator: no source"),
        ({"problem.yaml": "type: submit-answer"}, "submit_answer", "submit-answer"),
        ({"problem.yaml": "validator_flags: float_tolerance much"}, "broken_record", "float_tolerance = 'much'"),
        ({"problem.yaml": "validator_flags: --strict"}, "broken_record", "'--strict'"),
        ({"data/secret/3.in": "1\n1\n", "data/secret/3.ans": "1\n", "data/secret/3.yaml":
          "output_validator_args: [case_sensitive]"}, "several_comparisons", "2 ways"),
        ({"data/secret/group/2.files/x": "1"}, "file_io", "2.files"),
        ({"problem.yaml": "limits: {memory: much}"}, "broken_record", "memory = 'much': expected int"),
        ({".timelimit": "soon"}, "broken_record", "could not convert"),
        ({"data/sample/1.ans": None}, "broken_record", "expected the answer to 1.in"),
        ({"problem_statement/problem.en.tex": None}, "broken_record", "statement: expected one of"),
    ],
)  # fmt: skip
def test_a_package_that_does_not_fit_is_rejected_with_a_reason(tmp_path, change, reason, detail):
    rejection = read_package(tmp_path, LEGACY | change)
    assert (rejection.problem_id, rejection.reason) == ("packages/sum", reason)
    assert detail in rejection.detail


def test_a_scoring_problem_with_the_default_validator_is_judged_by_comparison(tmp_path):
    assert isinstance(read_package(tmp_path, LATER | {"problem.yaml": "type: scoring"}), Problem)


def test_the_comparison_of_tests_that_are_still_to_be_generated_is_that_of_their_settings(tmp_path):
    planned = "test_group.yaml: {output_validator_args: [case_sensitive]}\n"
    assert read_package(tmp_path, LATER | {"generators/generators.yaml": planned}).checker == "kattis:case_sensitive"


@pytest.mark.parametrize(("limits", "passes"), [("", 2), ("limits: {validation_passes: 3}", 3)])
def test_a_multi_pass_problem_is_judged_as_often_as_it_says(tmp_path, limits, passes):
    files = LATER | {"problem.yaml": f"type: multi-pass\n{limits}", "output_validator/v.py": "main"}
    problem = read_package(tmp_path, files)
    judge = from_json(JudgeProgram, problem.checker)
    assert (judge.program, judge.convention, judge.passes) == ("main", "kattis", passes)
    assert problem.has_no_answers
    for choice in ("compare", "reject"):
        assert read_package(tmp_path, files, special_judges=choice).reason == "multi_pass"


def test_a_validator_of_the_packages_own_is_compared_or_left_out_on_demand(tmp_path):
    files = LATER | {"output_validator/v.cc": "int main() {}"}
    assert read_package(tmp_path, files, special_judges="compare").checker == "kattis"
    assert read_package(tmp_path, files, special_judges="reject").reason == "special_judge"


@pytest.mark.parametrize(
    ("files", "language", "arguments"),
    [
        (LATER | {"output_validator/v.cc": "main", "output_validator/a.h": "more"}, "cpp", ()),
        (
            LEGACY
            | {
                "problem.yaml": "validation: custom\nvalidator_flags: exact 7",
                "output_validators/own/a.py": "more",
                "output_validators/own/validate.py": "main",
            },
            "python3",
            ("exact", "7"),
        ),
    ],
)
def test_a_validator_of_the_packages_own_judges_with_its_files_and_arguments(tmp_path, files, language, arguments):
    judge = from_json(JudgeProgram, read_package(tmp_path, files).checker)
    assert (judge.program, judge.language, judge.convention) == ("main", language, "kattis")
    assert (list(judge.files.values()), judge.arguments) == (["more"], arguments)


def test_the_validator_of_an_interactive_package_talks_to_programs(tmp_path):
    files = LATER | {"problem.yaml": "type: interactive", "output_validator/v.py": "import sys"}
    programs = from_json(ProblemPrograms, read_package(tmp_path, files).checker)
    assert (programs.interactor.program, programs.interactor.convention) == ("import sys", "kattis")
    assert programs.judge is None
    assert read_package(tmp_path, files, special_judges="compare").reason == "interactive"


def test_an_interactor_of_a_polygon_package_comes_with_the_checker_of_what_it_wrote(tmp_path):
    interactor = '<interactor><source path="files/talk.cpp" type="cpp.g++17"/></interactor><solutions>'
    files = {"problem.xml": MANIFEST.replace("<solutions>", interactor), "files/talk.cpp": "a", "files/check.cpp": "b"}
    programs = from_json(ProblemPrograms, read_package(tmp_path, POLYGON | files, "polygon").checker)
    assert (programs.interactor.program, programs.interactor.convention) == ("a", "testlib")
    assert (programs.judge.program, programs.judge.language) == ("b", "cpp")


def test_a_checker_of_a_polygon_package_judges_with_the_headers_of_the_package(tmp_path):
    resources = '<files><resources><file path="files/testlib.h"/></resources></files><assets>'
    manifest = MANIFEST.replace("std::rcmp6.cpp", "check.cpp").replace("<assets>", resources)
    files = {"problem.xml": manifest, "files/check.cpp": '#include "testlib.h"', "files/testlib.h": "// header"}
    judge = from_json(JudgeProgram, read_package(tmp_path, POLYGON | files, "polygon").checker)
    assert (judge.program, judge.language, judge.convention) == ('#include "testlib.h"', "cpp", "testlib")
    assert judge.files == {"testlib.h": "// header"}


def test_a_polygon_package_becomes_a_problem(tmp_path):
    problem = read_package(tmp_path, POLYGON, "polygon", languages="python3,pypy3,cpp")
    assert (problem.id, problem.checker, problem.statement) == ("polygon/sum", "float_1e-6", "Print the sum.")
    assert (problem.time_limit_s, problem.memory_limit_bytes) == (1.5, 64 << 20)
    assert [(test.origin, test.output) for test in problem.tests] == [("public", "1\n"), ("private", "3\n")]
    assert [(one.id, str(one.label), one.language) for one in problem.solutions] == [
        ("a.py", "correct", "python3"),
        ("a.cpp", "correct", "cpp"),
        ("w.py", "incorrect", "pypy3"),
    ]


def test_the_programs_that_made_the_tests_of_a_polygon_package_are_its_generators(tmp_path):
    resource = '<resources><file path="files/testlib.h"/></resources>'
    executables = "".join(
        f'<executable><source path="files/{name}" type="{kind}"/></executable>'
        for name, kind in (("gen.cpp", "cpp.g++17"), ("unused.cpp", "cpp.g++17"), ("Old.pas", "pas.fpc"))
    )
    more = '<test cmd="gen 2 -n 5"/><test cmd="gen 1"/><test cmd="Old 3"/>'
    manifest = MANIFEST.replace("</tests>", f"{more}</tests>").replace(
        "<assets>", f"<files>{resource}<executables>{executables}</executables></files><assets>"
    )
    sources = {"files/gen.cpp": '#include "testlib.h"', "files/unused.cpp": "", "files/Old.pas": ""}
    tests = {f"tests/0{number}{end}": "1\n" for number in (3, 4, 5) for end in ("", ".a")}
    files = POLYGON | sources | tests | {"problem.xml": manifest, "files/testlib.h": "// header"}
    problem = read_package(tmp_path, files, "polygon")
    (generator,) = problem.generators
    assert (generator.id, generator.commands, generator.language) == ("gen", ("1", "2 -n 5"), "cpp")
    assert generator.files == {"testlib.h": "// header"}
    assert dict(problem.trace[0].notes)["other_generators"] == 1


def test_sections_of_a_statement_are_put_together(tmp_path):
    sections = {"statement-sections/english/legend.tex": "Add.\n", "statement-sections/english/input.tex": "Numbers."}
    assert read_package(tmp_path, POLYGON | sections, "polygon").statement == "Add.\n\nNumbers.\n"


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        (("std::rcmp6.cpp", "own.cpp"), "special_judge", "checker: no source of it"),
        (('input-file=""', 'input-file="in.txt"'), "file_io", "in.txt"),
        (("<solutions>", "<interactor/><solutions>"), "special_judge", "interactor: no source of it"),
        (("tests/%02d<", "tests/%02d-%d<"), "broken_record", "expected one place for a number"),
        (("tests/%02d<", "../%02d<"), "broken_record", "expected a path inside the package"),
        (("tests/%02d.a", "tests/%02d.out"), "broken_record", "the full package has it"),
        (("<time-limit>1500", "<time-limit>soon"), "broken_record", "time-limit = 'soon'"),
        (("<problem short", "<!DOCTYPE p [<!ENTITY a 'b'>]><problem short"), "broken_record", "no entities"),
        (("</problem>", ""), "broken_record", "no element found"),
    ],
)
def test_a_polygon_package_that_does_not_fit_is_rejected_with_a_reason(tmp_path, change, reason, detail):
    rejection = read_package(tmp_path, POLYGON | {"problem.xml": MANIFEST.replace(*change)}, "polygon")
    assert (rejection.problem_id, rejection.reason) == ("polygon/sum", reason)
    assert detail in rejection.detail
