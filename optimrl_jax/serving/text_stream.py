"""Tokens to text as they come: whole characters only, nothing that may be the beginning of a stop text.

Pure. What was handed out is never taken back, and all of it together is the text of the completion.
"""

from collections.abc import Callable, Sequence

import numpy as np

# What bytes decode to that are no UTF-8 yet.
UNFINISHED = "\ufffd"


class TextStream:
    """The text of one completion.

    Args:
      decode: turns token ids into text.
      stops: texts that end the completion; they are no part of it.
    """

    def __init__(self, decode: Callable[[np.ndarray], str], stops: Sequence[str]) -> None:
        self._decode = decode
        self._stops = [stop for stop in stops if stop]
        self._ids: list[int] = []
        self._handed_out = 0
        self.is_stopped = False

    def add(self, token: int, *, is_last: bool = False) -> str:
        """Take one more token and return the text that has become final.

        Args:
          token: its id.
          is_last: release what was held back, too.
        """
        self._ids.append(token)
        return self._release(is_last=is_last)

    def finish(self) -> str:
        """Return the text that was held back; it is final once no token comes any more."""
        return self._release(is_last=True)

    def _release(self, *, is_last: bool) -> str:
        text = self._decode(np.asarray(self._ids, np.int32))
        places = [place for place in (text.find(stop) for stop in self._stops) if place >= 0]
        if places:
            self.is_stopped = True
            sure = min(places)
        elif is_last:
            sure = len(text)
        else:
            sure = len(text.rstrip(UNFINISHED))
            sure = min(sure, self._before_a_stop(text[:sure]))
        released = text[self._handed_out : sure]
        self._handed_out = max(self._handed_out, sure)
        return released

    def _before_a_stop(self, text: str) -> int:
        """Return the length of the text without an ending that may be the beginning of a stop text."""
        for start in range(max(0, len(text) - max(map(len, self._stops), default=0)), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)
