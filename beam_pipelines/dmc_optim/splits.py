"""The split into rl_train and rl_test: seeded by hash, stratified by category, duplicates kept together.

Needs only identities, so that it is decided once for the whole corpus, after everything that runs per problem.
"""

import dataclasses
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

RL_TRAIN = "rl_train"
RL_TEST = "rl_test"
NON_FILTERABLE = "non_filterable"


@dataclasses.dataclass(frozen=True)
class SplitCandidate:
    """What the split needs to know of a duration-filterable problem.

    Attributes:
      id: the problem's id.
      category: its stratum.
      group: problems with the same non-empty group are duplicates.
    """

    id: str
    category: str = ""
    group: str = ""


def assign_splits(members: Iterable[SplitCandidate], *, test_share: float, seed: int) -> dict[str, str]:
    """Assign each problem to rl_train or rl_test.

    round(test_share x problems) problems go to rl_test, shared out over categories by largest remainder; inside a
    category the order is that of a hash of seed and id, so that adding other problems never reorders these. A group of
    duplicates counts as its size, belongs to the category of its first member by id, and is never divided: the number
    can then miss its target by less than the largest group.

    Args:
      members: the duration-filterable problems.
      test_share: share of them that rl_test gets, in [0, 1].
      seed: decides the order.

    Returns:
      Problem id -> rl_train or rl_test.
    """
    groups = _groups(members)
    strata: dict[str, list[list[SplitCandidate]]] = defaultdict(list)
    for group in groups:
        strata[group[0].category].append(group)
    sizes = {category: sum(map(len, stratum)) for category, stratum in strata.items()}
    quotas = largest_remainder(sizes, total=round(test_share * sum(sizes.values())))
    splits = {}
    for category, stratum in strata.items():
        left = quotas[category]
        for group in sorted(stratum, key=lambda one: _position(seed, one)):
            is_test = len(group) <= left
            left -= len(group) if is_test else 0
            splits |= {member.id: RL_TEST if is_test else RL_TRAIN for member in group}
    return splits


def training_pools(splits: Mapping[str, str], *, size: int, seed: int) -> dict[str, frozenset[str]]:
    """Draw three training pools of the same size, to see by training on each what filterability is worth.

    App. B.9, Table 23: problems of rl_train, problems that are not filterable, and a mixture in the proportion of the
    whole corpus (478 and 522 of 1,000 in the paper). The pools are smaller than asked for where the corpus is.

    Args:
      splits: the split of every problem by id.
      size: problems of each pool at most.
      seed: orders the problems from which the pools take the first.

    Returns:
      Name of the pool -> ids of its problems.
    """
    counts = Counter(splits.values())
    ids = sorted(splits, key=lambda name: hashlib.sha256(f"{seed}/pool/{name}".encode()).digest())
    filterable = [name for name in ids if splits[name] == RL_TRAIN]
    others = [name for name in ids if splits[name] == NON_FILTERABLE]
    size = min(size, len(filterable), len(others))
    all_filterable = counts[RL_TRAIN] + counts[RL_TEST]
    share = all_filterable / max(1, all_filterable + len(others))
    mixed = filterable[: round(share * size)] + others[: size - round(share * size)]
    return {
        "pool_filterable": frozenset(filterable[:size]),
        "pool_mixed": frozenset(mixed),
        "pool_non_filterable": frozenset(others[:size]),
    }


def largest_remainder(sizes: dict[str, int], *, total: int) -> dict[str, int]:
    """Share a total out in proportion to sizes, in whole numbers that add up to it.

    Args:
      sizes: name -> size, not negative.
      total: at most the sum of the sizes.

    Returns:
      Name -> quota, in [0, size]; empty where all sizes are 0.
    """
    whole = sum(sizes.values())
    exact = {name: total * size / whole for name, size in sizes.items()} if whole else {}
    quotas = {name: math.floor(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_remainder[: total - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def _groups(members: Iterable[SplitCandidate]) -> list[list[SplitCandidate]]:
    found: dict[str, list[SplitCandidate]] = defaultdict(list)
    for member in sorted(members, key=lambda one: one.id):
        found[f"group {member.group}" if member.group else f"problem {member.id}"].append(member)
    return list(found.values())


def _position(seed: int, group: list[SplitCandidate]) -> bytes:
    return hashlib.sha256(f"{seed}/{group[0].id}".encode()).digest()
