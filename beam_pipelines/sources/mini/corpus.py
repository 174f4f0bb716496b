"""Edge: reads the embedded corpus from the program templates that lie beside this module.

`families/<family>/` holds one `<solution id>.py.tmpl` for each program and a `family.toml`: the statement, the way of
reading, the inputs of the base tests, the operations with their fragments and, where the family has no
`generator.py.tmpl` of its own, the shared generator with its sizes. `shared/` holds what several families use.
"""

import functools
import importlib.resources
import string
import tomllib
from importlib.resources.abc import Traversable

from beam_pipelines.records import Problem
from beam_pipelines.sources.mini.answers import ANSWERS
from beam_pipelines.sources.mini.family import Operation, ProblemFamily, expand_family

SUFFIX = ".py.tmpl"
GENERATOR = f"generator{SUFFIX}"
# Records list a family's programs in this order of kinds, and by number inside each.
KINDS = ("slow", "medium", "fast", "wrong")


@functools.cache
def mini_problems() -> tuple[Problem, ...]:
    """Return all problems of the embedded corpus: families in a fixed order, 18 instances each. Cached."""
    return tuple(
        problem for position, family in enumerate(mini_families()) for problem in expand_family(family, position)
    )


@functools.cache
def mini_families() -> tuple[ProblemFamily, ...]:
    """Return the families in the order of their table of trusted answers. Cached."""
    return tuple(_read_family(name) for name in ANSWERS)


def _read_family(name: str) -> ProblemFamily:
    root = importlib.resources.files("beam_pipelines.sources.mini")
    folder, shared = root / "families" / name, root / "shared"
    texts = tomllib.loads((folder / "family.toml").read_text("utf-8"))
    operations = tuple(Operation(**fields, answer=ANSWERS[name][fields["name"]]) for fields in texts["operations"])
    return ProblemFamily(
        name=name,
        statement=texts["statement"],
        operations=operations,
        read=(shared / f"read_{texts['reading']}{SUFFIX}").read_text("utf-8").rstrip("\n"),
        fast_read=(shared / f"fast_read_{texts['reading']}{SUFFIX}").read_text("utf-8").rstrip("\n"),
        programs={file.name.removesuffix(SUFFIX): file.read_text("utf-8") for file in _program_files(folder)},
        base_inputs=tuple(texts["base_inputs"]),
        generator=_generator(folder, shared, texts.get("generator")),
    )


def _program_files(folder: Traversable) -> list[Traversable]:
    files = [file for file in folder.iterdir() if file.name.endswith(SUFFIX) and file.name != GENERATOR]
    return sorted(files, key=lambda file: (KINDS.index(file.name.partition("_")[0]), file.name))


def _generator(folder: Traversable, shared: Traversable, values: dict[str, object] | None) -> str:
    if values is None:
        return (folder / GENERATOR).read_text("utf-8")
    template = (shared / f"{values['template']}{SUFFIX}").read_text("utf-8")
    return string.Template(template).substitute(values)
