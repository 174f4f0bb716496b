"""Figures of the source itself, as one JSON line: `python -m tests.benchmarks.structure`; `--list` names the offenders.

- `modules_cli_to_gradient`: modules that a reader opens between the command line of `train` and the gradient of one
  process (CHAIN). The script checks that each exists, that an earlier one imports it, and that whatever else they
  import is declared to lie aside, with a reason (ASIDE); `chain_mistakes` counts what fails.
- `largest_folder_modules`: Python files in the fullest folder of the three packages, `__init__` included.
- `shared_class_names_share`, `shared_function_names_share`: of all classes, and of all public functions at the top of a
  module, the share whose name another module defines too; EVERYWHERE and TWO_SIDES are exempt.
- `comment_share`: comments by line, without directives to tools. `docstring_words_median` and
  `docstrings_with_shape_or_unit_share`: over docstrings of public functions and methods.
- `import_cycles`: groups of modules that import each other, imports inside functions included.
- `longest_function_lines`, `modules_under_60_lines` (without `__init__`), `type_errors` (of pyrefly, as configured).
- `paper_line_references`: references such as `L` and four digits, in all files under version control.
"""

import argparse
import collections
import io
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Mapping

from tests import source
from tests.source import Module

# Loaded by name from the command line: nothing imports it.
CONFIGURATION = "configs.quickstart"
CHAIN = (
    "optimrl_jax.train",
    "optimrl_jax.jobs.command_line",
    "optimrl_jax.jobs.checked_fields",
    "optimrl_jax.settings",
    CONFIGURATION,
    "optimrl_jax.distributed.multihost",
    "optimrl_jax.grpo.loop",
    "optimrl_jax.rollout.groups",
    "optimrl_jax.data.packing",
    "optimrl_jax.training.trainer",
    "optimrl_jax.distributed.sharding",
    "optimrl_jax.training.objectives",
    "optimrl_jax.model.decoder",
    "optimrl_jax.model.attention",
)
# What modules of the chain import beside it, by the beginning of a name, and why a reader need not follow.
ASIDE = {
    "optimrl_jax.jobs.errors": "what a mistake of the user becomes",
    "optimrl_jax.jobs.config_files": "defaults, and where configuration files lie",
    "optimrl_jax.jobs.field_texts": "how a field is written on the command line and in --help",
    "optimrl_jax.jobs.progress": "what a terminal shows",
    "optimrl_jax.rollout.journal": "what is stored of rollouts",
    "optimrl_jax.rollout.learned_pool": "which references earlier rollouts join",
    "optimrl_jax.jobs.user_paths": "whether a path is there",
    "optimrl_jax.arrays": "types of arrays and axis letters",
    "optimrl_jax.rollout.execution": "the way from a program to its reward",
    "optimrl_jax.rollout.rewarder": "the way from a program to its reward",
    "optimrl_jax.rollout.actor": "the way from a prompt to its rollouts",
    "optimrl_jax.data.dataset": "the way from a prompt to its rollouts",
    "optimrl_jax.data.prompts": "the way from a prompt to its rollouts",
    "optimrl_jax.data.stream": "the way from a prompt to its rollouts",
    "optimrl_jax.model.kv_cache": "generation",
    "optimrl_jax.model.blockwise": "attention in blocks, a variant",
    "optimrl_jax.model.pretrained": "where the first policy comes from",
    "optimrl_jax.actors": "actors of other processes, a variant",
    "optimrl_jax.distributed.placement": "actors of other processes, a variant",
    "optimrl_jax.distributed.codec": "actors of other processes, a variant",
    "optimrl_jax.training.checkpoints": "saving and going on",
    "optimrl_jax.training.workdir": "saving and going on",
    "optimrl_jax.planning": "a plan in place of a run",
    "optimrl_jax.evaluation": "scores on held-out problems, beside the steps",
    "optimrl_jax.grpo.sync_rollouts": "the way from a prompt to its rollouts",
    "optimrl_jax.model.adapters": "low-rank adapters, a variant",
    "optimrl_jax.training.adaptation": "low-rank adapters, a variant",
    "optimrl_jax.training.metric_sinks": "where figures go",
    "sandbox.client": "the way from a program to its reward",
} | {
    f"optimrl_jax.settings.{group}": "the fields of some sections, which `Settings` names"
    for group in ("data", "devices", "execution", "model", "policies", "recipes", "reporting", "reward", "sampling")
}
EVERYWHERE = {"main", "get_config"}
# The same idea on two sides of a border that no import may cross, and why it stands on both.
TWO_SIDES = {
    "AffineMap": "a map between clocks: the sandbox imports nothing of ours",
    "require": "a mistake of the user: the sandbox imports nothing of ours",
}

_DIRECTIVE = re.compile(r"#\s*(noqa|fmt:|type:|pyrefly:|!)")
_SHAPE = re.compile(r"\[\*?[a-z][\w*]*(, ?\*?[\w.]+)*\]|\bshapes?\b|\baxis\b|\baxes\b", re.IGNORECASE)
_UNIT = re.compile(
    r"\b(seconds?|s|ms|milliseconds?|bytes|[KMGT]iB|percent|shares?|tokens?|rows?|Hz|FLOPs?|[01]\.\.[0-9.]+)\b"
    r"|\[-?\d[\d.]*, \d[\d.]*\]|%"
)
# Written apart, so that the pattern does not count itself.
_PAPER_LINE = re.compile(r"\b" + r"L\d{3,4}\b")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="structure", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="name collisions, cycles, large folders and mistakes")
    options = parser.parse_args(arguments)
    modules = source.shipped_modules()
    if options.list:
        print("\n".join(offenders(modules)), file=sys.stderr)
    print(json.dumps(figures(modules)))


def figures(modules: list[Module]) -> dict[str, float]:
    """Every figure of the benchmark."""
    classes, functions = _classes(modules), _functions(modules)
    docstrings = [text for module in modules for _, text in module.documented()]
    return {
        "modules_cli_to_gradient": len(CHAIN),
        "chain_mistakes": len(chain_mistakes(modules)),
        "largest_folder_modules": max(folder_sizes(modules).values()),
        "shared_class_names_share": shared_share(classes),
        "shared_function_names_share": shared_share(functions),
        "comment_share": sum(map(comments, modules)) / sum(module.lines for module in modules),
        "docstring_words_median": statistics.median(len(text.split()) for text in docstrings),
        "docstrings_with_shape_or_unit_share": statistics.mean(map(says_shape_or_unit, docstrings)),
        "import_cycles": len(cycles(source.import_graph(modules))),
        "longest_function_lines": max(lines for lines, _ in function_lines(modules)),
        "modules_under_60_lines": len(small(modules)),
        "type_errors": len(type_errors()),
        "paper_line_references": len(paper_line_references()),
    }


def offenders(modules: list[Module]) -> list[str]:
    """What stands behind the figures, one line each."""
    folders = sorted(folder_sizes(modules).items(), key=lambda item: -item[1])[:5]
    return [
        *(f"chain: {mistake}" for mistake in chain_mistakes(modules)),
        *(f"folder: {count} modules in {folder}" for folder, count in folders),
        *(f"class {name}: {', '.join(places)}" for name, places in shared(_classes(modules)).items()),
        *(f"function {name}: {', '.join(places)}" for name, places in shared(_functions(modules)).items()),
        *(f"cycle: {', '.join(sorted(cycle))}" for cycle in cycles(source.import_graph(modules))),
        *(f"function of {lines} lines: {name}" for lines, name in sorted(function_lines(modules))[-5:]),
        *(f"under 60 lines: {module.name} ({module.lines})" for module in small(modules)),
        *(f"type: {error}" for error in type_errors()),
        *(f"paper line: {reference}" for reference in paper_line_references()),
    ]


def chain_mistakes(modules: list[Module]) -> list[str]:
    """What is wrong with CHAIN and ASIDE: missing modules, unimported ones, undeclared imports, idle exemptions."""
    graph = source.import_graph([*modules, *source.modules_of("configs")])
    missing = [name for name in CHAIN if name not in graph]
    reached = {CHAIN[0], CONFIGURATION}
    unreached, undeclared = [], []
    for name in (name for name in CHAIN if name in graph):
        if name not in reached:
            unreached.append(name)
        reached |= graph[name]
        undeclared += [(name, target) for target in sorted(graph[name]) if target not in CHAIN and not _aside(target)]
    idle = [prefix for prefix in ASIDE if not any(_begins(target, prefix) for target in reached)]
    return [
        *(f"{name} does not exist" for name in missing),
        *(f"no earlier module imports {name}" for name in unreached),
        *(f"{name} imports {target}, which is neither in the chain nor declared aside" for name, target in undeclared),
        *(f"nothing in the chain imports {prefix}, which is declared aside" for prefix in idle),
    ]


def _aside(name: str) -> bool:
    return name.count(".") == 0 or any(_begins(name, prefix) for prefix in ASIDE)


def _begins(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def folder_sizes(modules: Iterable[Module]) -> dict[str, int]:
    return collections.Counter(str(module.path.parent.relative_to(source.ROOT)) for module in modules)


def _classes(modules: Iterable[Module]) -> list[tuple[str, str]]:
    return [(node.name, module.name) for module in modules for node in module.classes()]


def _functions(modules: Iterable[Module]) -> list[tuple[str, str]]:
    return [(node.name, module.name) for module in modules for node in module.public_functions()]


def shared(definitions: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that several modules define, with the modules; exempt ones left out."""
    places: Mapping[str, list[str]] = collections.defaultdict(list)
    for name, module in definitions:
        places[name].append(module)
    exempt = EVERYWHERE | set(TWO_SIDES)
    return {name: found for name, found in sorted(places.items()) if len(set(found)) > 1 and name not in exempt}


def shared_share(definitions: list[tuple[str, str]]) -> float:
    names = shared(definitions)
    return sum(name in names for name, _ in definitions) / len(definitions)


def comments(module: Module) -> int:
    """Comments of a module, one a line, without those that steer a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return sum(token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string) for token in tokens)


def says_shape_or_unit(docstring: str) -> bool:
    return bool(_SHAPE.search(docstring) or _UNIT.search(docstring))


def function_lines(modules: Iterable[Module]) -> list[tuple[int, str]]:
    """Lines of every function from `def` to its end, docstring included."""
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{module.name}.{node.name}")
        for module in modules
        for node in module.functions()
    ]


def small(modules: Iterable[Module]) -> list[Module]:
    return [module for module in modules if module.lines < 60 and module.path.name != "__init__.py"]


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which reaches all others of its group by imports."""
    reach = {name: _reachable(graph, name) for name in graph}
    groups = {frozenset({other for other in reach[name] if name in reach[other]}) for name in graph}
    return [set(group) for group in groups if len(group) > 1]


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in graph[ahead.pop()] - found:
            found.add(name)
            ahead.append(name)
    return found


def type_errors() -> list[str]:
    """The errors of pyrefly under the repository's configuration."""
    command = [str(pathlib.Path(sys.executable).with_name("pyrefly")), "check", "--output-format=json"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=source.ROOT, check=False)
    if answer.returncode > 1:
        raise SystemExit(f"structure: {answer.stderr.strip()}")
    errors = (error for error in json.loads(answer.stdout)["errors"] if error["severity"] == "error")
    return [f"{error['path']}:{error['line']}: {error['concise_description']}" for error in errors]


def paper_line_references() -> list[str]:
    """References to lines of the paper's text in files under version control."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=source.ROOT, check=True)
    found = []
    for name in listed.stdout.splitlines():
        path = source.ROOT / name
        if path.is_file():
            text = path.read_bytes().decode(errors="ignore")
            found += [f"{name}: {match.group()}" for match in _PAPER_LINE.finditer(text)]
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
