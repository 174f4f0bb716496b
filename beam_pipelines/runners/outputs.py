"""Edge: where a build writes: its output itself, or a directory of this host that is copied into a bucket at the end.

A dataset's files are written by libraries that know this host's disk alone. Records, checkpoints and stored executions
go straight to the output, wherever it lies, so that a build that is started again on another host finds them.
"""

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Iterator

from etils import epath

from beam_pipelines.dmc_optim.dmc_optim_dataset_builder import NAME
from beam_pipelines.remote_files import copy_files, is_remote, reachable_path
from beam_pipelines.runners import build_lock
from optimrl_jax.jobs import locks
from optimrl_jax.jobs.user_paths import writable_directory

STORE = "executions.sqlite"
# In a bucket: a directory of files, because a database has to lie on a disk.
REMOTE_STORE = "executions"
WORK = "work"


@dataclasses.dataclass(frozen=True)
class OutputDirectory:
    """The output of a build.

    Attributes:
      local: directory of this host in which the dataset and what lies beside it are written.
      target: the output; the same directory unless it lies in a bucket.
      require_lock: raises UserError where another build has taken the output over.
    """

    local: pathlib.Path
    target: epath.Path
    require_lock: Callable[[], None]

    @property
    def store(self) -> str:
        """Where executions are stored: a database on a disk, a directory of files in a bucket."""
        return str(self.target / REMOTE_STORE if is_remote(self.target) else self.local.resolve() / STORE)

    @property
    def work(self) -> epath.Path:
        """Where records and checkpoints lie unless another place is named."""
        return (self.target if is_remote(self.target) else epath.Path(self.local.resolve())) / WORK

    @property
    def store_bytes(self) -> int | None:
        """Size of the stored executions; None in a bucket, where each of them would have to be asked for."""
        if is_remote(self.target):
            return None
        store = pathlib.Path(self.store)
        return store.stat().st_size if store.exists() else 0

    def publish(self) -> None:
        """Copy what was written on this host into the bucket; an older dataset there is replaced.

        Raises:
          UserError: another build has taken the output over.
        """
        if not is_remote(self.target):
            return
        self.require_lock()
        (self.target / NAME).rmtree(missing_ok=True)
        copy_files(epath.Path(self.local), self.target)


@contextlib.contextmanager
def open_output(name: str) -> Iterator[OutputDirectory]:
    """Lend the output of that name, with its lock held until the block ends.

    Args:
      name: directory on this host or in a bucket.

    Raises:
      UserError: the directory cannot be made or reached, or another build is at work in it.
    """
    target = reachable_path(name, "--output")
    if not is_remote(name):
        local = writable_directory(name, "--output")
        with locks.locked_directory(local, field="--output", work=build_lock.BUILD):
            yield OutputDirectory(local, target, require_lock=lambda: None)
        return
    with (
        build_lock.leased_directory(target) as require_lease,
        tempfile.TemporaryDirectory(prefix="optimrl-build-") as folder,
    ):
        yield OutputDirectory(pathlib.Path(folder), target, require_lock=require_lease)
