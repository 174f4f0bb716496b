"""What a build is asked to do: every option with its unit, checked once, the same on every runner.

Frozen and made of plain values, so that it pickles into workers and is written into the manifest as it stands.
"""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    INNER_SHARE,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_SHARE,
    SHARE,
    Check,
    at_most,
    setting,
)

KNOWN_LANGUAGES = ("python3", "pypy3", "c", "cpp", "java", "go", "rust", "javascript")
LANGUAGES: Check = (
    lambda value: bool(value) and set(value.split(",")) <= set(KNOWN_LANGUAGES),
    f"some of {','.join(KNOWN_LANGUAGES)}",
)
VERSION: Check = (
    lambda value: [part.isdecimal() for part in value.split(".")] == [True] * 3,
    "three whole numbers with points between them",
)
MEMORY_MIB: Check = (lambda value: 16 <= value <= 1 << 20, "a whole number in [16, 1048576]")
# Options that change where and how fast a dataset is built, but not what is in it.
FREE_OPTIONS = ("output", "work", "sandbox_address", "sandbox_workers", "trust_programs", "detach", "take_over")
JUDGES: Check = (lambda value: value in ("run", "reject", "compare"), "run, reject or compare")

VARIANTS: Check = (lambda value: value in ("full", "light"), "full or light")
AUTO_ADDRESS = "auto"
LOCAL_ADDRESS = "local"


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """Options of one build, each a flag of the same name; `setting` gives default, meaning and check."""

    source: str = setting("mini", "where problems come from")
    input: str = setting("", "file or directory that the source reads")
    split: str = setting("", "split of the input to read, where it has several; all: mix them")
    languages: str = setting("python3", "languages of solutions, with commas between them", LANGUAGES)
    special_judges: str = setting("run", "checkers of problems' own: run, reject, or compare outputs instead", JUDGES)
    checkers: str = setting("", "JSON file with programs that judge outputs, by problem")
    testlib: str = setting("", "the header testlib.h, for checkers that include it")
    tests_only: bool = setting(False, "statements and tests alone, as an evaluation needs them: no program is run")
    min_correct: int = setting(5, "gate: correct solutions that must be left of a problem (paper: 5)", POSITIVE)
    min_incorrect: int = setting(1, "gate: incorrect solutions that must be left of a problem", NOT_NEGATIVE)
    max_correct_drop: float = setting(0.25, "gate: share of correct solutions lost to added tests at most", SHARE)
    max_false_positive: float = setting(0.05, "gate: share of incorrect solutions that pass at most", SHARE)
    until: str = setting("", "stage after which to stop; its problems go to OUTPUT/until/STAGE; empty: all stages")
    output: str = setting("", "directory of the dataset")
    name: str = setting("DMC-Optim", "name of the dataset in its metadata and on its card")
    version: str = setting("1.0.0", "version of the dataset, as MAJOR.MINOR.PATCH", VERSION)
    license: str = setting("", "identifier of the dataset's licence, such as cc-by-4.0; empty: that of its source")
    homepage: str = setting("", "address under which the dataset is described")
    work: str = setting("", "directory of finished records that all workers can write; empty: work in the output")
    generators: str = setting("", "JSON or JSON Lines file with input generators by problem")
    evaluation_sets: str = setting("", "comma-separated JSON Lines or Parquet files that the corpus must not contain")
    similar: float = setting(0.8, "share of equal MinHash places from which statements are duplicates", POSITIVE_SHARE)
    limit: int = setting(0, "problems to read at most; 0: all", NOT_NEGATIVE)
    calls: int = setting(5, "calls of each generator method in a campaign (paper: 5)", POSITIVE)
    attempts: int = setting(10, "generators tried for a problem at most (paper: 10)", POSITIVE)
    verifiers: int = setting(10, "solutions that vote on an output at most (paper: 10)", POSITIVE)
    max_original_tests: int = setting(0, "original tests kept of a problem at most; 0: all", NOT_NEGATIVE)
    max_solutions: int = setting(0, "solutions kept of each label and problem at most; 0: all", NOT_NEGATIVE)
    repeats: int = setting(3, "timed executions of each optimization test", at_most(100))
    limit_s: float = setting(10.0, "cap of one execution, s (paper: 10)", at_most(600))
    memory_mib: int = setting(1024, "memory of one execution, MiB (paper: 1 GB)", MEMORY_MIB)
    min_robust_cv: float = setting(0.3, "robust CV from which a problem is duration-filterable", NOT_NEGATIVE)
    test_share: float = setting(302 / 1302, "share of the filterable problems that rl_test gets", INNER_SHARE)
    variant: str = setting("full", "full, or light: one solution a label, no optimization tests", VARIANTS)
    pool_size: int = setting(0, "problems of each of three equal training pools; 0: no pools", NOT_NEGATIVE)
    seed: int = setting(0, "the one seed: calls, votes, order of executions and split", NOT_NEGATIVE)
    sandbox_address: str = setting("auto", "local, docker, http(s)://host:port of a service; auto: docker, mini local")
    detach: bool = setting(False, "start the runner's job and do not wait for it; the same command without it goes on")
    take_over: bool = setting(False, "go on in place of a detached job that ended before all its records were there")
    trust_programs: bool = setting(False, "run programs of others on this host without containment (address local)")
    sandbox_workers: int = setting(2, "programs executed at the same time by one process", at_most(1024))


def sandbox_address(options: BuildOptions) -> str:
    """Return where programs run: `local`, `docker`, or the address of a service.

    What the options say counts; `auto` runs this package's own programs (and trusted ones) on this host and all others
    in containers.
    """
    if options.sandbox_address != AUTO_ADDRESS:
        return options.sandbox_address
    return LOCAL_ADDRESS if options.source == "mini" or options.trust_programs else "docker"
