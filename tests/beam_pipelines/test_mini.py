"""The embedded corpus as text: its design, its sizes and its trusted answers. Nothing shipped is executed here."""

import ast
import collections
import hashlib
import itertools
import json
import pathlib

import pytest

from beam_pipelines.sources.mini import corpus, mini_families, mini_problems
from beam_pipelines.sources.mini.family import iterate_instances
from beam_pipelines.sources.mini.forms import FORMS
from optimrl_jax.arrays import TestKind

FAMILIES = mini_families()
PROBLEMS = mini_problems()
INSTANCES = [
    (family, *pair) for position, family in enumerate(FAMILIES) for pair in iterate_instances(family, position)
]
# SHA-256 of all ids, statements, programs, labels, generators and tests: trained policies depend on every byte of them.
DIGEST = "6c8d6e253474ed54e462daa29a88a5ddaa9ee1705d581823a1c87c81ac213cf2"


def operation_of(family_name: str, operation_name: str):
    (family,) = [family for family in FAMILIES if family.name == family_name]
    (operation,) = [operation for operation in family.operations if operation.name == operation_name]
    return operation


def test_twelve_families_ship_18_instances_each():
    assert collections.Counter(problem.category for problem in PROBLEMS) == {family.name: 18 for family in FAMILIES}
    assert len(FAMILIES) == 12
    assert len({problem.id for problem in PROBLEMS}) == 216


def test_two_readings_give_equal_problems():
    mini_families.cache_clear()
    mini_problems.cache_clear()
    assert mini_problems() == PROBLEMS


def test_not_a_byte_of_the_records_has_changed():
    texts = [
        (
            problem.id,
            problem.statement,
            [
                (solution.id, solution.program, str(solution.label), solution.speed_class)
                for solution in problem.solutions
            ],
            [(test.kind, test.input, test.output, test.origin) for test in problem.tests],
            [(generator.id, generator.program) for generator in problem.generators],
        )
        for problem in PROBLEMS
    ]
    assert hashlib.sha256(json.dumps(texts).encode()).hexdigest() == DIGEST


def test_every_template_file_is_rendered_into_programs_that_parse():
    folder = pathlib.Path(corpus.__file__).parent / "families"
    shipped = {(path.parent.name, path.name.removesuffix(".py.tmpl")) for path in folder.glob("*/*.py.tmpl")}
    rendered = {(problem.category, solution.id) for problem in PROBLEMS for solution in problem.solutions}
    assert shipped - {(family.name, "generator") for family in FAMILIES} == rendered - {
        (family.name, "wrong_form") for family in FAMILIES
    }
    for problem in PROBLEMS:
        for program in (*problem.solutions, *problem.generators):
            ast.parse(program.program)


def test_statements_are_distinct_and_short():
    assert len({problem.statement for problem in PROBLEMS}) == len(PROBLEMS)
    assert max(len(problem.statement) for problem in PROBLEMS) <= 220


def test_a_statement_holds_the_phrases_of_its_operation_and_its_form():
    for problem, (_, operation, form) in zip(PROBLEMS, INSTANCES, strict=True):
        assert operation.phrase in problem.statement
        assert f"Print {form.phrase}. Input: " in problem.statement


def test_each_operation_meets_six_forms_and_each_form_several_operations_of_every_family():
    forms_of_operation = collections.defaultdict(set)
    operations_of_form = collections.defaultdict(set)
    for family, operation, form in INSTANCES:
        forms_of_operation[family.name, operation.name].add(form.name)
        operations_of_form[family.name, form.name].add(operation.name)
    assert {len(forms) for forms in forms_of_operation.values()} == {6}
    assert len(operations_of_form) == len(FAMILIES) * len(FORMS)
    assert min(len(operations) for operations in operations_of_form.values()) >= 2


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_two_instances_of_a_family_have_the_same_answers(family):
    instances = [
        (tuple(test.output for test in problem.tests), operation.name, form.name)
        for problem, (own, operation, form) in zip(PROBLEMS, INSTANCES, strict=True)
        if own is family
    ]
    same = [pair for pair in itertools.combinations(instances, 2) if pair[0][0] == pair[1][0]]
    # A total is odd where the number of its odd terms is.
    assert all({one[1:], other[1:]} == {("total", "parity"), ("odd", "parity")} for one, other in same)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_expression_of_a_form_prints_what_its_trusted_function_says(form):
    for ans in (*range(200), 999, 1024, 123456789):
        assert str(eval(form.expression, {"ans": ans})) == form.text(ans)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_mistake_of_a_form_shows_on_some_small_number(form):
    assert any(str(eval(form.mistake, {"ans": ans})) != form.text(ans) for ans in range(20))


def test_no_two_forms_agree_on_all_small_numbers():
    for one, other in itertools.combinations(FORMS, 2):
        assert [one.text(value) for value in range(30)] != [other.text(value) for value in range(30)]


def test_three_in_ten_correct_programs_are_fast_and_all_classes_are_there():
    for problem in PROBLEMS:
        classes = collections.Counter(solution.speed_class for solution in problem.correct)
        assert classes == {"slow": 3, "medium": 4, "fast": 3}


def test_programs_are_distinct_short_and_free_of_comments():
    for problem in PROBLEMS:
        programs = [solution.program for solution in problem.solutions]
        assert len(set(programs)) == len(programs)
        assert max(map(len, programs)) <= 370
        assert not any("#" in program or "$" in program for program in programs)


def test_a_program_ends_with_one_print_line():
    for problem, (_, _, form) in zip(PROBLEMS, INSTANCES, strict=True):
        for solution in problem.correct:
            assert solution.program.endswith(f"\nprint({form.expression})\n")
            assert solution.program.count("print(") == 1


def test_at_least_four_wrong_programs_ship_with_each_problem():
    assert all(len(problem.incorrect) >= 4 for problem in PROBLEMS)
    assert all(not solution.speed_class for problem in PROBLEMS for solution in problem.incorrect)


def test_base_tests_are_tiny_single_tokens_of_original_kind():
    for problem in PROBLEMS:
        assert len(problem.tests) == 6
        assert len({test.input for test in problem.tests}) == 6
        for test in problem.tests:
            assert test.kind == TestKind.ORIGINAL
            assert len(test.input) < 200
            assert len(test.output.split()) == 1
            assert test.output.endswith("\n")


HAND_WORKED = [
    # 20 pairs with each 40.
    ("pairs", "sum_60", "4\n20 40 40 7\n", 2),
    ("pairs", "equal", "4\n20 40 40 7\n", 1),
    ("pairs", "differ_by_7", "3\n1 8 15\n", 2),
    # Segments 5; 5+1; 2: largest 6, total 13, one odd.
    ("segments", "largest", "3\n5 1 2\n0 0 2\n", 6),
    ("segments", "total", "3\n5 1 2\n0 0 2\n", 13),
    ("segments", "odd", "3\n5 1 2\n0 0 2\n", 1),
    # 4000+2000 fits exactly, 2000+3000 fits, then 3000 alone: lengths 2, 2, 1.
    ("blocks", "longest", "3\n4000 2000 3000\n", 2),
    ("blocks", "total", "3\n4000 2000 3000\n", 5),
    ("blocks", "odd", "3\n4000 2000 3000\n", 1),
    # 7 twice, 9 once: counts 2, 2, 1.
    ("frequency", "largest", "3\n7 7 9\n", 2),
    ("frequency", "total", "3\n7 7 9\n", 5),
    ("frequency", "odd", "3\n7 7 9\n", 1),
    # Sorted 1 4 10 12: index 2 is 10, the end sums to 22, the widest gap is 6.
    ("sorting", "middle", "4\n10 1 12 4\n", 10),
    ("sorting", "upper_half", "4\n10 1 12 4\n", 22),
    ("sorting", "widest_gap", "4\n10 1 12 4\n", 6),
    # Substrings of aab: a, a, b, aa, ab, aab.
    ("substrings", "balanced", "aab\n", 1),
    ("substrings", "surplus_3", "aaab\n", 1),
    ("substrings", "differ_by_2", "aab\n", 1),
    ("subsequences", "increasing", "5\n3 1 2 2 5\n", 3),
    ("subsequences", "non_decreasing", "5\n3 1 2 2 5\n", 4),
    ("subsequences", "decreasing", "5\n3 1 2 2 5\n", 2),
    # A path 0-1-2 with a leaf at the root: depths 0, 1, 2, 1.
    ("tree", "largest", "4\n0 0 1 0\n", 2),
    ("tree", "total", "4\n0 0 1 0\n", 4),
    ("tree", "odd", "4\n0 0 1 0\n", 2),
    # Divisors of 6: 1 2 3 6; of 4: 1 2 4.
    ("divisors", "number", "2\n6 4\n", 7),
    ("divisors", "sum", "2\n6 4\n", 19),
    ("divisors", "odd", "2\n6 4\n", 3),
    # [1, 2] and [2, 5]: starts 1, 2 against ends 2, 5.
    ("intervals", "after", "2\n1 2\n2 5\n", 0),
    ("intervals", "exactly_when", "2\n1 2\n2 5\n", 1),
    ("intervals", "before", "2\n1 2\n2 5\n", 3),
    ("stack", "greater", "4\n2 1 2 3\n", 5),
    ("stack", "smaller", "4\n2 1 2 3\n", 1),
    ("stack", "at_least", "4\n2 1 2 3\n", 4),
    # Windows of 3 in 9 1 2 5: maxima 9 and 5.
    ("windows", "total", "4\n9 1 2 5\n", 14),
    ("windows", "distinct", "4\n9 1 2 5\n", 2),
    ("windows", "odd", "4\n9 1 2 5\n", 2),
]


@pytest.mark.parametrize(("family", "operation", "text", "expected"), HAND_WORKED)
def test_trusted_answers_agree_with_hand_worked_ones(family, operation, text, expected):
    assert operation_of(family, operation).answer(text) == expected


def test_every_operation_has_a_hand_worked_answer():
    assert {case[:2] for case in HAND_WORKED} == {(family.name, operation.name) for family, operation, _ in INSTANCES}
