"""What a build is asked to do: every option with its unit, checked once, the same on every runner.

Frozen and made of plain values, so that it pickles into workers and is written into the manifest as it stands.
"""

import dataclasses
import math
from collections.abc import Callable

Check = tuple[Callable[[object], bool], str]

POSITIVE: Check = (lambda value: value > 0, "a positive number")
NOT_NEGATIVE: Check = (lambda value: value >= 0, "a number that is not negative")
OPEN_SHARE: Check = (lambda value: 0 < value < 1, "a share between 0 and 1")
OPEN_CLOSED: Check = (lambda value: 0 < value <= 1, "a share above 0, at most 1")
ANY: Check = (lambda value: True, "")


def option(default: object, meaning: str, check: Check = ANY) -> object:
    """A dataclass field that carries its meaning (with unit) and its check."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "check": check})


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """Options of one build; each is a flag of the same name."""

    source: str = option("mini", "where problems come from")
    input: str = option("", "file or directory that the source reads")
    output: str = option("", "directory of the dataset")
    work: str = option("", "directory of finished records that all workers can write; empty: work in the output")
    generators: str = option("", "JSON or JSON Lines file with input generators by problem")
    evaluation_sets: str = option("", "comma-separated JSON Lines or Parquet files that the corpus must not contain")
    similar: float = option(0.8, "share of equal MinHash places from which statements are duplicates", OPEN_CLOSED)
    limit: int = option(0, "problems to read at most; 0: all", NOT_NEGATIVE)
    calls: int = option(5, "calls of each generator method in a campaign (paper: 5)", POSITIVE)
    attempts: int = option(10, "generators tried for a problem at most (paper: 10)", POSITIVE)
    verifiers: int = option(10, "solutions that vote on an output at most (paper: 10)", POSITIVE)
    max_original_tests: int = option(0, "original tests kept of a problem at most; 0: all", NOT_NEGATIVE)
    max_solutions: int = option(0, "solutions kept of each label and problem at most; 0: all", NOT_NEGATIVE)
    repeats: int = option(3, "timed executions of each optimization test", POSITIVE)
    limit_s: float = option(10.0, "cap of one execution, s (paper: 10)", POSITIVE)
    memory_mib: int = option(1024, "memory of one execution, MiB (paper: 1 GB)", POSITIVE)
    min_robust_cv: float = option(0.3, "robust CV from which a problem is duration-filterable", NOT_NEGATIVE)
    test_share: float = option(302 / 1302, "share of the filterable problems that rl_test gets", OPEN_SHARE)
    seed: int = option(0, "the one seed: calls, votes, order of executions and split", NOT_NEGATIVE)
    sandbox_address: str = option("local", "local, or http(s)://host:port of a service")
    sandbox_workers: int = option(2, "programs executed at the same time by one process", POSITIVE)


def check(options: BuildOptions) -> str:
    """The first thing wrong with the options as `--field = value: expected ...`, empty if nothing is."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        accepts, expected = field.metadata["check"]
        if isinstance(value, float) and not math.isfinite(value):
            return f"--{field.name} = {value!r}: expected a finite number"
        if not accepts(value):
            return f"--{field.name} = {value!r}: expected {expected} ({field.metadata['meaning']})"
    return ""
