"""Edge: several processes, each with its own devices, that take one step together: joining, feeding and agreeing.

Every process runs the same job on its own share of the examples or problems. With one process, nothing here has any
effect.
"""

import atexit
import contextlib
import dataclasses
import logging
import math
import os
import pathlib
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import msgpack
import numpy as np
from jax.experimental import multihost_utils

from optimrl_jax.distributed import codec, sharding
from optimrl_jax.jobs.errors import SettingsError, UserError, exit_code
from optimrl_jax.settings import ProcessSettings, Settings

# Words in the errors of a collective when another process is gone: of Gloo, NCCL, and JAX's coordination service.
SIGNS_OF_LOSS = ("Gloo", "NCCL", "coordination service", "CoordinationService")
# Settings that the processes of a job divide evenly among themselves, beside devices. In SFT each brings its own rows;
# in GRPO all have the rows of all, so that devices of two processes may share one row.
SHARED_IN_SFT = ("data.micro_rows", "mesh.data * mesh.fsdp", "sft.batch")
SHARED_IN_GRPO = ("actors.count",)
PlaceBatch = Callable[[typing.Any, jax.sharding.NamedSharding], typing.Any]


@contextlib.contextmanager
def distributed_session(settings: Settings, *, shared: Sequence[str]) -> Iterator[None]:
    """Join the processes of a job for the duration of a context; leave it together unless something fails.

    A process that fails ends at once. The others then fail for lack of it: with UserError, or through JAX's watch over
    all processes, which ends them after 100 s at most.

    Args:
      settings: those of the job.
      shared: see `initialize`.
    """
    initialize(settings, shared=shared)
    try:
        yield
        barrier()
    except BaseException as error:
        if jax.process_count() == 1:
            raise
        known = _explained(error, settings.processes.count)
        # An orderly exit would deadlock: this process would wait for the others while they wait for it.
        atexit.register(_leave, exit_code(known))
        raise known from (error if known is not error else None)


def initialize(settings: Settings, *, shared: Sequence[str] = ()) -> None:
    """Wait for all processes of `processes.count` at the coordinator.

    Call it before anything touches a device. With one process, or in a session that is joined already, it does nothing.

    Args:
      settings: those of the job.
      shared: names of settings, such as "sft.batch", that the processes divide among themselves.

    Raises:
      SettingsError: if there is no coordinator, or the processes cannot share evenly.
      UserError: if the other processes do not come within `processes.wait_s`.
    """
    processes = settings.processes
    if processes.count == 1 or jax.distributed.is_initialized():
        return
    if not processes.coordinator:
        raise SettingsError("processes.coordinator = '': expected host:port of the first process")
    check_even_shares(settings, shared=shared)
    # CPU devices of different processes can communicate through Gloo alone; other platforms have their own way.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # The service would catch SIGTERM, on which the job has to end as on Ctrl-C.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            processes.coordinator,
            processes.count,
            processes.index,
            initialization_timeout=int(processes.wait_s),
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"processes.coordinator = {processes.coordinator!r}: expected all processes ({reason})"
        ) from None
    if processes.index:
        logging.getLogger("optimrl_jax").setLevel(logging.WARNING)


def check_even_shares(settings: Settings, *, shared: Sequence[str]) -> None:
    """Check that the processes can share devices and the settings named in `shared` evenly, and none samples nothing.

    Raises:
      SettingsError: if they cannot, or if the index of this process is not below their number.
    """
    processes: ProcessSettings = settings.processes
    if processes.index >= processes.count:
        raise SettingsError(f"processes.index = {processes.index}: expected less than processes.count")
    for name in ("mesh.devices", *shared):
        value = math.prod(_value_of(settings, part) for part in name.split(" * "))
        if value % processes.count:
            raise SettingsError(f"{name} = {value}: expected a multiple of processes.count = {processes.count}")
    tensor, each = settings.mesh.tensor, settings.mesh.devices // processes.count
    if each % tensor and tensor % each:
        raise SettingsError(f"mesh.tensor = {tensor}: expected a divisor or a multiple of {each}, a process's devices")
    grpo = settings.grpo
    takes_turns = "actors.count" in shared and not settings.actors.count and not grpo.sampler
    if takes_turns and grpo.problems < processes.count:
        raise SettingsError(f"grpo.problems = {grpo.problems}: expected one for each of {processes.count} processes")


def _value_of(settings: Settings, name: str) -> int:
    """Read a whole number of the settings by its dotted name."""
    value: typing.Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def process_index_and_count() -> tuple[int, int]:
    """Return (index of this process, number of processes): which share of the examples it takes."""
    return jax.process_index(), jax.process_count()


def process_directory(workdir: pathlib.Path) -> pathlib.Path:
    """Return the directory for what processes do not share, creating it if need be.

    That is the workdir for the first process and `process_N` in it for the others.
    """
    path = workdir / f"process_{jax.process_index()}" if jax.process_index() else workdir
    path.mkdir(parents=True, exist_ok=True)
    return path


def from_local_shards(batch: typing.Any, sharding: jax.sharding.NamedSharding) -> typing.Any:
    """Build arrays over all devices from the rows that each process holds, in the order of processes.

    Args:
      batch: a tree of host arrays, equally many rows in each process.
      sharding: of the result.
    """
    if jax.process_count() == 1:
        return batch
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), batch)


def from_replicated(batch: typing.Any, sharding: jax.sharding.NamedSharding) -> typing.Any:
    """Build arrays over all devices from what every process holds as a whole.

    Args:
      batch: a tree of host arrays, equal in every process.
      sharding: of the result.
    """
    if jax.process_count() == 1:
        return batch
    return jax.tree.map(lambda x: jax.make_array_from_callback(x.shape, sharding, lambda index: x[index]), batch)


def to_host_replicated(tree: typing.Any) -> typing.Any:
    """Convert values that are equal in every process to the form that a program over all devices accepts.

    Returns:
      NumPy arrays where there are several processes, else the tree as it is.
    """
    return tree if jax.process_count() == 1 else jax.tree.map(np.asarray, tree)


def process_places(step: int, problems: int) -> list[int]:
    """List the places of a step that are this process's; places of all steps are dealt out in turn.

    Args:
      step: number of the step.
      problems: places of one step, over all processes.

    Returns:
      Places in [0, problems), ascending; may be empty where there are more processes than problems.
    """
    index, count = process_index_and_count()
    return [place for place in range(problems) if (step * problems + place) % count == index]


def count_own(first: int, number: int) -> int:
    """Count this process's groups among `number` groups of a run from the `first`-th on, dealt out in turn."""
    index, count = process_index_and_count()
    return sum(place % count == index for place in range(first, first + number))


def per_process(settings: Settings) -> Settings:
    """Return the settings with this process's share of the actors and, rounded up, of the problems of a step."""
    count = process_index_and_count()[1]
    grpo, actors = settings.grpo, settings.actors
    return dataclasses.replace(
        settings,
        grpo=dataclasses.replace(grpo, problems=-(-grpo.problems // count)),
        actors=dataclasses.replace(actors, count=actors.count // count),
    )


def process_meshes(mesh: jax.sharding.Mesh) -> tuple[jax.sharding.Mesh, jax.sharding.Mesh]:
    """Build meshes on which each process of `mesh` holds all parameters on its own devices.

    Both split parameters alike: over tensor as `mesh` does, as far as one process has devices for it, and over fsdp
    with what is left of them.

    Returns:
      The mesh over the devices of all processes, and the one over this process's devices alone.
    """
    owned: dict[int, list] = {}
    for device in mesh.devices.flat:
        owned.setdefault(device.process_index, []).append(device)
    each = len(owned[jax.process_index()])
    tensor = math.gcd(mesh.shape["tensor"], each)
    fsdp = math.gcd(mesh.shape["fsdp"], each // tensor)

    def over(devices: list) -> jax.sharding.Mesh:
        return jax.sharding.Mesh(
            np.array(devices).reshape(-1, fsdp, 1, tensor), sharding.AXES, axis_types=sharding.AXIS_TYPES
        )

    return over([device for index in sorted(owned) for device in owned[index]]), over(owned[jax.process_index()])


def process_copy(params: typing.Any) -> typing.Any:
    """Copy parameters to the devices of this process alone, all of them; with one process return them as they are.

    The copy goes from device to device and is split over the devices here as the learner's is, as far as those go. All
    processes have to call this together.
    """
    if jax.process_count() == 1:
        return params
    everywhere, here = process_meshes(jax.tree.leaves(params)[0].sharding.mesh)
    copies = jax.device_put(params, sharding.param_shardings(everywhere, params))
    return jax.tree.map(
        lambda x, to: jax.make_array_from_single_device_arrays(x.shape, to, [s.data for s in x.addressable_shards]),
        copies,
        sharding.param_shardings(here, params),
    )


def global_sum(value: float) -> float:
    """Sum a number over the processes; all of them have to call this together."""
    return value if jax.process_count() == 1 else float(multihost_utils.process_allgather(np.float64(value)).sum())


def barrier() -> None:
    """Wait until every process has come here."""
    global_max(0)


def global_max(value: int) -> int:
    """Find the largest of a whole number (int32) over the processes; all of them have to call this together."""
    return value if jax.process_count() == 1 else int(multihost_utils.process_allgather(np.int32(value)).max())


def all_gather_states(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, typing.Any]) -> list[codec.WireMessage]:
    """Exchange arrays and metadata, so that every process knows what each of them brought.

    Args:
      arrays: by name; names, shapes and types may differ from process to process.
      metadata: plain values.

    Returns:
      One message for each process, in their order.
    """
    if jax.process_count() == 1:
        return [codec.WireMessage("state", dict(metadata), dict(arrays))]
    frames = [bytes(frame) for frame in codec.encode_message("state", metadata, arrays)]
    own = np.frombuffer(typing.cast(bytes, msgpack.packb(frames)), np.uint8)
    # Collectives need one shape: everything is padded to the longest, and the lengths say how much is real.
    lengths = multihost_utils.process_allgather(np.int32(len(own)))
    brought = multihost_utils.process_allgather(np.pad(own, (0, int(lengths.max()) - len(own))))
    rows = zip(brought, lengths, strict=True)
    return [codec.decode_message(msgpack.unpackb(row[:length].tobytes())) for row, length in rows]


def _explained(error: BaseException, count: int) -> BaseException:
    """Translate an error that stems from the loss of another process; return any other as it is."""
    text = str(error)
    if not isinstance(error, ValueError | RuntimeError) or not any(sign in text for sign in SIGNS_OF_LOSS):
        return error
    return UserError(
        f"processes.count = {count}: expected all processes to go on, and another one has ended: start the same "
        f"commands again ({text.splitlines()[0][:200]})"
    )


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)
