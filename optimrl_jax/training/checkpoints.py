"""Edge: atomic checkpoints of a job (Orbax), the newest kept; and the policy that a job has left in its workdir.

Checkpoints are written while training goes on. If one cannot be written because the disk is full, that is logged and
the next one is tried. If one cannot be read, reading is retried where its storage may have failed for a moment;
otherwise that is logged and the one before it is used. No unreadable checkpoint is ever deleted.
"""

import contextlib
import dataclasses
import functools
import logging
import pathlib
import time
import typing
from collections.abc import Collection

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.distributed import multihost, sharding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import adapters, decoder
from optimrl_jax.model.pretrained import published
from optimrl_jax.settings import CheckpointSettings, ComputeSettings, ModelSettings, Network
from optimrl_jax.training import adaptation
from optimrl_jax.training import workdir as workdir_lib
from optimrl_jax.training.trainer import TrainState

_LOG = logging.getLogger(__name__)
FOLDER = workdir_lib.CHECKPOINT_FOLDER
SET_ASIDE_FOLDER = "checkpoints_set_aside"
PLAIN = ComputeSettings()
KEEP_TWO = CheckpointSettings()
# Further attempts to read storage that fails for a moment, after a pause that doubles each time.
RETRIES = 3
PAUSE_S = 0.5
# What Orbax, TensorStore and JSON raise for files that are missing, cut or changed.
UNREADABLE = (ValueError, OSError, KeyError, TypeError)
# TensorStore raises ValueError for a disk that is full or failing, and names the cause only in the text.
DISK_FAILURES = ("RESOURCE_EXHAUSTED", "os_error_code")


@dataclasses.dataclass(frozen=True, eq=False)
class Restored:
    """What a checkpoint held.

    Attributes:
      step: under which it was saved.
      arrays: trees of arrays by name.
      metadata: plain values: counters, position in the data.
    """

    step: int
    arrays: dict[str, typing.Any]
    metadata: dict[str, typing.Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Policy:
    """Parameters of a trained decoder with the network and the tokenizer that they belong to.

    Attributes:
      params: the weights, or shapes alone where they are read or sent later.
      settings: shape of the decoder and how it is computed.
      tokenizer: the one that the policy was trained with.
    """

    params: decoder.Params
    settings: Network
    tokenizer: tokenizer_lib.Tokenizer


class Checkpoints:
    """The checkpoints of one job; writing goes on in the background while training does.

    Args:
      workdir: that of the job.
      kept: which checkpoints stay on disk.
      is_owner: whether this is the job itself; a reader deletes, moves and creates nothing.
    """

    def __init__(self, workdir: pathlib.Path, *, kept: CheckpointSettings = KEEP_TWO, is_owner: bool = True) -> None:
        # Orbax logs every rename, and a failure once in each of its threads; here the user gets one line for it.
        logging.getLogger("absl").setLevel(logging.WARNING)
        logging.getLogger("absl").addFilter(_is_news)
        self._folder = (workdir / FOLDER).resolve()
        self._kept = kept
        self._is_owner = is_owner
        self._writing: int | None = None
        self._unwritten = ""
        self._manager = self._opened()

    def save(self, step: int, arrays: dict[str, typing.Any], metadata: dict[str, typing.Any]) -> None:
        """Begin to store trees of arrays and metadata under `step`, once the save before is complete.

        Returns as soon as the arrays may change. A disk that is full is one line in the log; the next save tries again.

        Args:
          step: number of the checkpoint.
          arrays: trees by name; one that is None is left out.
          metadata: values that JSON can hold.

        Raises:
          UserError: if the disk is full in a run of several processes, which cannot try again on their own.
        """
        self.wait()
        items = {name: ocp.args.StandardSave(tree) for name, tree in arrays.items() if tree is not None}
        self._writing = step
        try:
            self._manager.save(step, args=ocp.args.Composite(facts=ocp.args.JsonSave(metadata), **items), force=True)
        except (OSError, ValueError) as error:
            self._failed(error)

    def wait(self) -> None:
        """Wait until the checkpoint that was begun is complete on disk, or is given up with one line in the log."""
        if self._writing is None:
            return
        try:
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            self._failed(error)
        else:
            self._writing, self._unwritten = None, ""

    def close(self) -> None:
        """Wait for the last checkpoint and release the directory.

        Raises:
          UserError: if the last checkpoint of the job could not be written.
        """
        self.wait()
        self._manager.close()
        if self._unwritten:
            raise UserError(f"{self._folder}: expected room for the last checkpoint ({self._unwritten})")

    def _failed(self, error: OSError | ValueError) -> None:
        if isinstance(error, ValueError) and not any(sign in str(error) for sign in DISK_FAILURES):
            raise error
        reason = _reason(error)
        self._unwritten = f"checkpoint {self._writing}: {reason}"
        if jax.process_count() > 1:
            # Another attempt needs all processes, and the others do not know of this failure.
            raise UserError(f"{self._folder}: expected room for a checkpoint ({self._unwritten})") from None
        _LOG.warning("checkpoint %s cannot be written, the next one is tried again: %s", self._writing, reason)
        self._writing = None
        # The manager keeps the failure and would raise it again; a new one also removes the unfinished files.
        with contextlib.suppress(OSError, ValueError):
            self._manager.close()
        self._manager = self._opened()

    def _opened(self) -> ocp.CheckpointManager:
        options = ocp.CheckpointManagerOptions(
            max_to_keep=(self._kept.keep or None) if self._is_owner else None,
            keep_period=(self._kept.keep_every or None) if self._is_owner else None,
            enable_async_checkpointing=self._is_owner,
            cleanup_tmp_directories=self._is_owner,
            create=self._is_owner,
        )
        return ocp.CheckpointManager(self._folder, options=options)

    def restore(
        self, targets: dict[str, typing.Any], *, optional: Collection[str] = (), step: int | None = None
    ) -> Restored | None:
        """Read the newest checkpoint that can be read, or that of `step`; None where there is none at all.

        Once an older one was read, the owner moves the newer ones that could not be into `checkpoints_set_aside`, so
        that the job can write those steps again. Nothing is deleted.

        Args:
          targets: the trees by name, with shapes, types and shardings; None takes a tree as it was stored.
          optional: names that are left out where they are not stored.
          step: the only one to read.

        Raises:
          UserError: where checkpoints exist and none of them can be read.
        """
        self.wait()
        steps = sorted(self._manager.all_steps(), reverse=True)
        if step is not None:
            steps = _only(step, steps, self._folder)
        unreadable = []
        for step in steps:
            found = None
            try:
                found = self._read_patiently(step, targets, optional)
            except UNREADABLE as error:
                _LOG.warning("checkpoint %d cannot be read, falling back to the one before: %s", step, _reason(error))
            is_missing = found is None
            if self._is_owner:
                # All processes of a job go on from the same step.
                is_missing = bool(multihost.global_max(is_missing))
            if not is_missing:
                self._set_aside(unreadable)
                return found
            unreadable.append(step)
        if steps:
            raise UserError(
                f"{self._folder}: expected at least one readable checkpoint among {steps}; they are left as they are"
            )
        return None

    def _read_patiently(self, step: int, targets: dict[str, typing.Any], optional: Collection[str]) -> Restored:
        """Read a checkpoint, again where the storage may have failed for a moment: a missing file has not."""
        for attempt in range(RETRIES):
            try:
                return self._read(step, targets, optional)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                _LOG.warning("checkpoint %d: %s; reading it again", step, _reason(error))
                time.sleep(PAUSE_S * 2**attempt)
        return self._read(step, targets, optional)

    def _set_aside(self, steps: Collection[int]) -> None:
        if not self._is_owner or not steps:
            return
        aside = self._folder.parent / SET_ASIDE_FOLDER
        if jax.process_index() == 0:
            aside.mkdir(exist_ok=True)
            for step in steps:
                names = [str(step), *(f"{step}.{again}" for again in range(1, 1000))]
                free = next(aside / name for name in names if not (aside / name).exists())
                (self._folder / str(step)).rename(free)
                _LOG.warning("checkpoint %d was set aside: %s", step, free)
        # All processes go on with the same steps.
        multihost.barrier()
        self._manager.reload()

    def _read(self, step: int, targets: dict[str, typing.Any], optional: Collection[str]) -> Restored:
        stored = {path.name for path in (self._folder / str(step)).iterdir()}
        names = [name for name in targets if name in stored or name not in optional]
        items = {name: ocp.args.StandardRestore(targets[name]) for name in names}
        found = self._manager.restore(step, args=ocp.args.Composite(facts=ocp.args.JsonRestore(), **items))
        return Restored(step=step, arrays={name: found[name] for name in names}, metadata=found["facts"])


def _reason(error: Exception) -> str:
    """Shorten an error to its first line; of a full disk say only that it is full."""
    if "No space left on device" in str(error):
        return "no space left on the disk"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and "orbax" in record.pathname)


def load_policy(
    workdir: str | pathlib.Path,
    compute: ComputeSettings = PLAIN,
    *,
    step: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> Policy:
    """Load the policy that a job (SFT or GRPO) left in `workdir`; adapters are merged into the weights beside them.

    Args:
      workdir: that of the job.
      compute: how the decoder is computed from now on.
      step: number of the checkpoint; the newest one that can be read if None.
      mesh: parameters are read straight into their places on it, so that no device ever holds all of them; without one
        they go to the first device of this process.

    Raises:
      UserError: if there is no policy, no such checkpoint or none that can be read, or a tokenizer that does not fit.
    """
    path = pathlib.Path(workdir)
    settings = workdir_lib.read_model(path)
    if not (path / FOLDER).is_dir():
        raise UserError(f"{path / FOLDER}: expected the checkpoints of a job")
    base = adaptation.read_base(path)
    wanted = adaptation.adapter_targets(settings, base.lora, mesh) if base else abstract_params(settings, mesh)
    checkpoints = Checkpoints(path, is_owner=False)
    restored = checkpoints.restore({"params": wanted}, step=step)
    checkpoints.close()
    if restored is None:
        raise UserError(f"{path / FOLDER}: expected at least one checkpoint")
    tokenizer = tokenizer_lib.load_tokenizer(path)
    if tokenizer.size > settings.vocabulary:
        raise UserError(f"{path}: expected a tokenizer of at most {settings.vocabulary} tokens, found {tokenizer.size}")
    params = restored.arrays["params"]
    if base:
        params = _merged(base, params, mesh)
    return Policy(params, Network.of(settings, compute), tokenizer)


def _merged(
    base: adaptation.AdaptedBase, adapters_tree: decoder.Params, mesh: jax.sharding.Mesh | None
) -> decoder.Params:
    """Load the weights that adapters belong beside and add the adapters to them."""
    beside = load_start(base.source, step=base.step, mesh=mesh).params
    base.check(beside)
    merge = jax.jit(functools.partial(adapters.merge_adapters, lora=base.lora), donate_argnums=0)
    return merge(jax.tree.map(jnp.asarray, beside), adapters_tree)


def load_start(
    source: str,
    compute: ComputeSettings = PLAIN,
    *,
    step: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> Policy:
    """Load the policy that a job starts from: what another job left, or published weights as they are.

    Args:
      source: as `grpo.init_from` and `sft.init_from` name it.
      compute: how the decoder is computed from now on.
      step: number of the checkpoint, where a job left it; the newest if None.
      mesh: see `load_policy`.

    Raises:
      UserError: if there is no such policy.
    """
    if not published.names_published_weights(source):
        return load_policy(source, compute, step=step, mesh=mesh)
    found = published.load_published(source, mesh=mesh)
    return Policy(found.params, Network.of(found.settings, compute), found.tokenizer)


def load_policy_shape(workdir: str | pathlib.Path, compute: ComputeSettings = PLAIN) -> Policy:
    """Load the shapes and the tokenizer of the policy in `workdir`, with no weights.

    Raises:
      UserError: if there is none.
    """
    settings = workdir_lib.read_model(pathlib.Path(workdir))
    tokenizer = tokenizer_lib.load_tokenizer(pathlib.Path(workdir))
    return Policy(decoder.abstract_params(settings), Network.of(settings, compute), tokenizer)


def fingerprint(workdir: str | pathlib.Path, *, step: int | None = None) -> tuple[int, int]:
    """Identify a checkpoint without reading it, to notice when a policy has changed.

    Args:
      workdir: that of the job.
      step: number of the checkpoint; the newest if None.

    Returns:
      (step, time of writing in ns).

    Raises:
      UserError: if there is no such checkpoint.
    """
    steps = [path for path in (pathlib.Path(workdir) / FOLDER).glob("*") if path.name.isdigit()]
    if not steps:
        raise UserError(f"{pathlib.Path(workdir) / FOLDER}: expected the checkpoints of a job")
    wanted = max(int(path.name) for path in steps)
    if step is not None:
        (wanted,) = _only(step, [int(path.name) for path in steps], pathlib.Path(workdir) / FOLDER)
    return wanted, (pathlib.Path(workdir) / FOLDER / str(wanted)).stat().st_mtime_ns


def step_of(source: str) -> int | None:
    """Return the newest checkpoint of the workdir that `init_from` names; None for published weights."""
    return None if published.names_published_weights(source) else fingerprint(source)[0]


def _only(step: int, steps: Collection[int], folder: pathlib.Path) -> list[int]:
    if step not in steps:
        raise UserError(f"{folder}: expected a checkpoint of step {step}, found {sorted(steps)}")
    return [step]


def to_trees(state: TrainState) -> dict[str, typing.Any]:
    """Name the trees of a training state for a checkpoint, so that a policy can be read without the optimizer."""
    return {"params": state.params, "optimizer": {"moments": state.optimizer, "step": state.step}}


def restore_targets(state: TrainState) -> dict[str, typing.Any]:
    """Describe where a restored state is to live: the shapes, types and shardings of `to_trees(state)`."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), to_trees(state))


def from_trees(trees: dict[str, typing.Any]) -> TrainState:
    """Rebuild the training state that `to_trees` took apart."""
    return TrainState(trees["params"], trees["optimizer"]["moments"], trees["optimizer"]["step"])


def abstract_params(settings: ModelSettings, mesh: jax.sharding.Mesh | None = None) -> decoder.Params:
    """Describe a policy's parameters: shapes, types and places, on a mesh or on the first device of this process.

    Raises:
      SettingsError: if an axis of the mesh does not divide an axis that it splits.
    """
    shapes = decoder.abstract_params(settings)
    if mesh is not None:
        places = sharding.param_shardings(mesh, shapes)
        return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, places)
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), shapes)
