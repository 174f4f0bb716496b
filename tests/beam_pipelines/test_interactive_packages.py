"""A package whose validator talks to programs in several passes: judged as its folders say, built into a dataset."""

import pytest

from sandbox import client
from sandbox.protocol import Limits, ProblemPrograms, RunRequest, Verdict, from_json, suite_judged_by
from tests.beam_pipelines import layouts
from tests.beam_pipelines.corpora import read_records, read_rows, run_quietly

VERDICTS = {
    "accepted": Verdict.SUCCESS,
    "wrong_answer": Verdict.WRONG_OUTPUT,
    "run_time_error": Verdict.RUNTIME_ERROR,
    "time_limit_exceeded": Verdict.TIME_LIMIT,
}
SUBMISSIONS = [name for name in layouts.NOTES if name.startswith("submissions/")]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    (found,) = read_records("packages", input=str(layouts.write_files(tmp_path_factory.mktemp("notes"), layouts.NOTES)))
    return found


@pytest.fixture(scope="module")
def sandbox():
    with client.connect("local", workers=1, reuse="never") as connected:
        yield connected


def test_the_validator_talks_in_as_many_passes_as_the_format_gives(problem):
    programs = from_json(ProblemPrograms, problem.checker)
    assert (programs.interactor.convention, programs.interactor.passes, programs.judge) == ("kattis", 2, None)
    assert problem.has_no_answers


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_every_submission_does_what_its_folder_says(problem, sandbox, name):
    inputs, expected = zip(*((test.input, test.output) for test in problem.tests), strict=True)
    suite = sandbox.upload(suite_judged_by(problem.checker, inputs=inputs, expected=expected))
    results = sandbox.run(RunRequest(layouts.NOTES[name], suite, limits=Limits(wall_s=0.5))).results
    found = {result.verdict for result in results}
    assert VERDICTS[name.split("/")[1]] in found <= {Verdict.SUCCESS, VERDICTS[name.split("/")[1]]}, results


def test_the_package_becomes_a_dataset_with_new_tests_that_every_solution_was_accepted_on(tmp_path):
    layouts.write_files(tmp_path / "in" / "notes", layouts.NOTES)
    gates = ("--min_correct=2", "--calls=1", "--repeats=1", "--min_robust_cv=0", "--limit_s=1")
    run_quietly("--source=packages", f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *gates)
    (row,) = read_rows(tmp_path / "out").values()
    assert row["reference_id"].tolist() == [b"accepted/doubled.py", b"accepted/negated.py"]
    assert {*row["test_input"][:2]} == {b"hide 37", b"hide 0"}
    generated = [text for text, kind in zip(row["test_input"], row["test_kind"], strict=True) if kind]
    assert generated
    assert all(text.startswith(b"hide ") for text in generated)
    assert (row["duration_s"] > 0).all()
