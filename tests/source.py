"""The repository's own source, parsed once: modules, what each imports, and what each defines.

Rules of architecture (`tests/test_imports.py`) and figures of structure (`tests/benchmarks/structure.py`) read it from
here. Nothing is imported or run: everything comes from the syntax tree.
"""

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
SHIPPED = ("sandbox", "beam_pipelines", "optimrl_jax")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True, eq=False)
class Module:
    """A Python file of the repository: its dotted name, place and text."""

    name: str
    path: pathlib.Path
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @functools.cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_edge(self) -> bool:
        """Whether the module does I/O by its own account."""
        return (ast.get_docstring(self.tree) or "").startswith("Edge: ")

    @functools.cached_property
    def imports(self) -> frozenset[str]:
        """Dotted names of all that is imported at any depth; `from a import b` counts as `a.b`."""
        names: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        return frozenset(names)

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def public_functions(self) -> Iterator[Function]:
        """Functions at the top of the module, by names without a leading underscore."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield node

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))

    @functools.cached_property
    def private_names(self) -> frozenset[str]:
        """Private names that the module defines: functions, classes, variables and attributes that it sets."""
        named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        names = {node.name for node in ast.walk(self.tree) if isinstance(node, named)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
        return frozenset(filter(_is_private, names))

    @functools.cached_property
    def foreign_private_names(self) -> frozenset[str]:
        """Private names of others that it reads: as attributes, as imports, or as texts for `setattr`."""
        names = {node.attr for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        names |= {
            alias.name for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
                names |= {
                    text.value for text in node.args if isinstance(text, ast.Constant) and isinstance(text.value, str)
                }
        return frozenset(filter(_is_private, names)) - self.private_names

    def documented(self) -> Iterator[tuple[str, str]]:
        """Name and docstring of public functions, and of public methods of public classes, that have one."""
        methods = (
            (f"{owner.name}.{node.name}", node)
            for owner in self.classes()
            for node in owner.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if not owner.name.startswith("_") and not node.name.startswith("_")
        )
        for name, node in (*((node.name, node) for node in self.public_functions()), *methods):
            if docstring := ast.get_docstring(node):
                yield name, docstring


def modules_of(package: str, *, root: pathlib.Path = ROOT) -> list[Module]:
    """The modules of a top-level package, sorted by path."""
    return [Module(_dotted(path, root), path, path.read_text()) for path in sorted((root / package).rglob("*.py"))]


def shipped_modules(root: pathlib.Path = ROOT) -> list[Module]:
    """The modules of the three packages."""
    return [module for package in SHIPPED for module in modules_of(package, root=root)]


def import_graph(modules: list[Module]) -> dict[str, set[str]]:
    """Which of the modules each one imports: the longest module name that begins an imported name."""
    names = {module.name for module in modules}
    return {
        module.name: {target for name in module.imports if (target := _longest_prefix(name, names))} - {module.name}
        for module in modules
    }


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _dotted(path: pathlib.Path, root: pathlib.Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _longest_prefix(name: str, names: set[str]) -> str | None:
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name or None
