"""Inside the isolation boundary: the inputs of tests, out of reach of programs, and the copy that a run reads.

A stored file would tell a program whose test it runs and, by its times, whether it is the first to run it. So every
run reads a fresh copy in memory, which always has the same name.
"""

import binascii
import fcntl
import os

from sandbox.inside import languages

NAME = "input"


class Inputs:
    """The stored inputs of tests, by suite and test. Adds nothing to what it was asked to store."""

    def __init__(self, directory: str, *, large: str) -> None:
        """Take over two directories that only this process may read.

        Args:
          directory: for inputs that come in one message; in memory where it can be.
          large: for those that come in parts.
        """
        self._directory = directory
        self._large = large

    def store(self, request: dict) -> dict:
        """Store the `text` of one `test` of a `suite`; answer with an error where there is no room for it."""
        try:
            with open(self._path(request), "wb") as file:
                file.write(languages.encoded(request["text"]))
        except OSError as error:
            return {"error": f"no room for an input of {len(request['text'])} characters ({error.strerror})"}
        return {}

    def append(self, request: dict) -> dict:
        """Store a part (`content`, base64) of an input called `file`; the first one has `is_first`."""
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if request["is_first"] else os.O_APPEND)
        try:
            with open(os.open(self._path(request), flags, 0o600), "wb") as file:
                file.write(binascii.a2b_base64(request["content"]))
        except OSError as error:
            return {"error": f"no room for an input of this size ({error.strerror})"}
        return {}

    def forget(self, _: dict) -> dict:
        """Delete all stored inputs; answers nothing."""
        for directory in {self._directory, self._large}:
            for entry in list(os.scandir(directory)):
                if entry.is_file():
                    os.unlink(entry.path)
        return {}

    def open_copy(self, request: dict, *, is_sealed: bool = True) -> int:
        """Return the descriptor of a copy of one input, which nobody can change if sealed; the caller closes it."""
        copy, source = os.memfd_create(NAME, os.MFD_ALLOW_SEALING), os.open(self._path(request), os.O_RDONLY)
        try:
            while os.sendfile(copy, source, None, 1 << 30):
                pass
        finally:
            os.close(source)
        if is_sealed:
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, languages.SEALS)
        return copy

    def _path(self, request: dict) -> str:
        if request.get("file"):
            return f"{self._large}/{request['file']}"
        return f"{self._directory}/{request['suite']}-{request['test']}"
