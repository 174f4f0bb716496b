"""Edge: the sandbox's answers in files that all workers of a build reach, for builds whose output lies in a bucket.

A database file cannot be shared there. One file holds the answers to the requests that a stage asked at once: what a
restarted or retried build asks again, it asks in the same groups. Files are named by the requests, and the first answer
stays. Answers in which the sandbox itself failed are never kept, and a file that cannot be read is measured again.
"""

import gzip
import hashlib
import json
import logging
import uuid
import zlib
from collections.abc import Sequence

from etils import epath

from sandbox import protocol

_LOG = logging.getLogger(__name__)


class AnswerFiles:
    """Answers by the requests that were asked together; safe to use from several threads, processes and hosts.

    Args:
      directory: holds the files, in folders by the first digits of their names.
    """

    def __init__(self, directory: str) -> None:
        self._directory = epath.Path(directory)

    def get(self, requests: Sequence[protocol.RunRequest]) -> list[protocol.RunResult] | None:
        """Return the answers to these requests, in order; None where they are not kept or cannot be read."""
        path = self._path(requests)
        try:
            if not path.exists():
                return None
            rows = json.loads(gzip.decompress(path.read_bytes()))
            return [protocol.from_dict(protocol.RunResult, row) for row in rows]
        except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
            _LOG.warning("%s: cannot be read and is measured again (%s)", path, error)
            return None

    def put(self, requests: Sequence[protocol.RunRequest], answers: Sequence[protocol.RunResult]) -> None:
        """Keep the answers to these requests, unless one is faulted; a place that cannot be written raises nothing."""
        if any(answer.is_faulted for answer in answers):
            return
        path = self._path(requests)
        text = f"[{','.join(map(protocol.to_json, answers))}]"
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=3, mtime=0))
            temporary.replace(path)
        except OSError as error:
            _LOG.warning("%s: cannot be kept (%s)", path, error)

    def _path(self, requests: Sequence[protocol.RunRequest]) -> epath.Path:
        name = hashlib.sha256("".join(request.sha256 for request in requests).encode()).hexdigest()
        return self._directory / name[:2] / f"{name}.json.gz"
