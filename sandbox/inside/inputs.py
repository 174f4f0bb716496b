"""Inside the isolation boundary: the inputs of tests, out of reach of programs, and the copy that a run reads.

A stored file would tell a program whose test it runs and, by its times, whether it is the first to run it. So every
run reads a fresh copy in memory, which always has the same name.
"""

import fcntl
import os

from sandbox.inside import languages

NAME = "input"


class Inputs:
    """The stored inputs of tests, by suite and test. Adds nothing to what it was asked to store."""

    def __init__(self, directory: str) -> None:
        """Take over a directory that only this process may read."""
        self._directory = directory

    def store(self, request: dict) -> dict:
        """Store the `text` of one `test` of a `suite`; answer with an error where there is no room for it."""
        try:
            with open(self._path(request), "wb") as file:
                file.write(languages.encoded(request["text"]))
        except OSError as error:
            return {"error": f"no room for an input of {len(request['text'])} characters ({error.strerror})"}
        return {}

    def forget(self, _: dict) -> dict:
        """Delete all stored inputs; answers nothing."""
        for entry in list(os.scandir(self._directory)):
            if entry.is_file():
                os.unlink(entry.path)
        return {}

    def open_copy(self, request: dict, *, is_sealed: bool = True) -> int:
        """Return the descriptor of a copy of one input, which nobody can change if sealed; the caller closes it."""
        copy = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
        with open(self._path(request), "rb", buffering=0) as source:
            while os.sendfile(copy, source.fileno(), None, 1 << 30):
                pass
        if is_sealed:
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, languages.SEALS)
        return copy

    def _path(self, request: dict) -> str:
        return f"{self._directory}/{request['suite']}-{request['test']}"
