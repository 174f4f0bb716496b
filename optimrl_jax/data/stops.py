"""Stop strings: where a completion ends because of what its text says."""

from collections.abc import Callable, Sequence

import numpy as np


def stop_length(
    tokens: np.ndarray, checked: int = 0, *, stops: Sequence[str], decode: Callable[[np.ndarray], str]
) -> int | None:
    """Length, greater than `checked`, of the shortest beginning whose text contains one of `stops`; None: none does.

    The token that completes the stop string counts. `stops` holds at least one text, and none is empty. Looks no
    further back than a stop string has bytes, since a token of text has at least one: special tokens, which decode to
    nothing, within a stop string may hide it. The result is the same whether a completion is looked through at once or
    piece by piece.
    """
    reach = max(len(stop.encode()) for stop in stops)

    def contains(start: int, end: int) -> bool:
        text = decode(tokens[max(0, start - reach) : end])
        return any(stop in text for stop in stops)

    if not contains(checked, len(tokens)):
        return None
    return next((end for end in range(checked + 1, len(tokens) + 1) if contains(end, end)), None)
