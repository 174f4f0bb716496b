"""The dataset card that lies beside a dataset: what it is, where it comes from, under which licences. Pure."""

from collections.abc import Mapping

LICENCES = {
    "mini": "Original problems and programs that ship with this package, under the package's own licence.",
    "code_contests": (
        "CodeContests is published by DeepMind under CC BY 4.0; problem statements and solutions belong to their "
        "authors and to the contest sites that collected them."
    ),
    "jsonl": "Whatever the file's owner grants; the builder of the dataset has to say so.",
    "packages": "The `license` field of each problem package holds.",
}

_TEXT = """# DMC-Optim ({source})

Programming problems with tests that separate fast correct programs from slow ones, verified reference programs with
measured durations on every test, and incorrect programs as negative controls.

| split | problems |
|---|---|
{splits}

`filterable` is rl_train and rl_test together, `cleaned` is everything; both are further names for the same files.

## How it was built

Revision {revision}, options in `manifest.json`. Stages: {stages}. Expected outputs of added tests are those on which
at least two verified solutions agree; no model wrote an output.

## Durations

Seconds of wall time of the program alone, {repeats} measurements on optimization tests and one on the others, under:
{measured_under}. Compare them with durations of another host only after a calibration.

## Licences

{licence}

## Limits

Labels are as good as the tests: a program that passes every test here may still be wrong. Problems with several right
outputs are removed where solutions disagree, not where all of them happen to agree.
"""


def dataset_card(manifest: Mapping, *, stages: list[str]) -> str:
    """Markdown text of the card from a manifest."""
    options = manifest["options"]
    under = "; ".join(", ".join(f"{k} {v}" for k, v in state.items()) for state in manifest["measured_under"])
    return _TEXT.format(
        source=options["source"],
        splits="\n".join(f"| {name} | {count} |" for name, count in manifest["splits"].items()),
        revision=manifest["revision"],
        stages=", ".join(stages),
        repeats=options["repeats"],
        measured_under=under or "an unnamed service",
        licence=LICENCES[options["source"]],
    )
