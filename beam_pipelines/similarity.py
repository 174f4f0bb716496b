"""How alike two statements are: normalized text, MinHash signatures, groups of near-duplicates. Pure.

A signature holds, for each of 128 hash functions, the smallest hash among the word triples of a text; the share of
equal places estimates the Jaccard similarity of the two sets of triples with a standard error below 0.045.
"""

import re
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

PERMUTATIONS = 128
BANDS = 32
WORDS_A_SHINGLE = 3
SIMILAR = 0.8
# The smallest prime above 2**32, the range of CRC-32.
_PRIME = np.uint64(4294967311)
_DRAW = np.random.default_rng(1)
# Factors below 2**31 keep factor x hash within 64 bits.
_FACTORS = _DRAW.integers(1, 2**31, PERMUTATIONS, np.uint64)[:, None]
_OFFSETS = _DRAW.integers(0, 2**31, PERMUTATIONS, np.uint64)[:, None]


def normalize_statement(text: str) -> str:
    """Reduce a text to its words and numbers in lower case.

    Layout, punctuation and Unicode variants (NFKC) no longer tell two texts apart.
    """
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def minhash_signature(text: str) -> np.ndarray:
    """Compute the MinHash signature, uint64[128], of the word triples of a text.

    A text of fewer than three words is its own only shingle.
    """
    words = normalize_statement(text).split()
    count = max(1, len(words) - WORDS_A_SHINGLE + 1)
    shingles = {" ".join(words[n : n + WORDS_A_SHINGLE]) for n in range(count)}
    hashes = np.array([zlib.crc32(one.encode("utf-8", "surrogatepass")) for one in sorted(shingles)], np.uint64)
    return ((_FACTORS * hashes + _OFFSETS) % _PRIME).min(axis=1)


def jaccard_estimate(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimate the Jaccard similarity, in [0, 1], of a signature and others.

    Args:
      one: uint64[128].
      others: uint64[n, 128].

    Returns:
      float[n], with a standard error below 0.045.
    """
    return (others == one).mean(axis=-1)


def near_duplicate_groups(statements: Mapping[str, str], *, similar: float = SIMILAR) -> dict[str, str]:
    """Group problems whose statements are near-duplicates.

    Near-duplicates share at least one of 32 bands of their signatures (probability above 0.9999 at similarity 0.8) and
    are then compared whole; being a duplicate passes on (a ~ b, b ~ c puts all three together).

    Args:
      statements: problem id -> statement.
      similar: share of equal places of two signatures from which they are near-duplicates.

    Returns:
      Problem id -> the first id of its group in order of ids; problems without a near-duplicate are left out.
    """
    ids = sorted(statements)
    signatures = np.array([minhash_signature(statements[name]) for name in ids]).reshape(len(ids), PERMUTATIONS)
    root = list(range(len(ids)))
    for bucket in _buckets(signatures):
        first = bucket[0]
        for other in bucket[1:]:
            if jaccard_estimate(signatures[first], signatures[other]) >= similar:
                low, high = sorted((_find(root, first), _find(root, other)))
                root[high] = low
    found = [_find(root, index) for index in range(len(ids))]
    sizes = np.bincount(found, minlength=len(ids))
    return {ids[index]: ids[top] for index, top in enumerate(found) if sizes[top] > 1}


def _buckets(signatures: np.ndarray) -> Iterable[Sequence[int]]:
    """Yield, for every band, the indices of the texts that share it."""
    for band in np.split(signatures, BANDS, axis=1):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for index, part in enumerate(band):
            buckets[part.tobytes()].append(index)
        yield from (bucket for bucket in buckets.values() if len(bucket) > 1)


def _find(root: list[int], index: int) -> int:
    while root[index] != index:
        root[index] = root[root[index]]
        index = root[index]
    return index
