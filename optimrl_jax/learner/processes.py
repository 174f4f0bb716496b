"""Edge: several processes, each with its own devices, that make one step together: joining, feeding and agreeing.

Every process runs the same job on its own share of the examples. With one process, nothing here does anything.
"""

import pathlib
import typing

import jax
import numpy as np
from jax.experimental import multihost_utils

from optimrl_jax.commands import UserError
from optimrl_jax.settings import ProcessSettings, Settings, SettingsError


def join(settings: Settings) -> None:
    """Waits for all processes of `processes.count` at the coordinator; call it before anything touches a device.

    Raises SettingsError where the processes cannot share rows or examples evenly, UserError where the others do not
    come.
    """
    processes = settings.processes
    if processes.count == 1 or jax.distributed.is_initialized():
        return
    _check(settings)
    # CPU devices of different processes only talk through it; other platforms have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
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
    if jax.local_device_count() % settings.mesh.tensor:
        raise SettingsError(f"mesh.tensor = {settings.mesh.tensor}: expected a divisor of the devices of a process")


def part() -> tuple[int, int]:
    """(index of this process, number of processes): which share of the examples it takes."""
    return jax.process_index(), jax.process_count()


def own_directory(workdir: pathlib.Path) -> pathlib.Path:
    """Where this process writes what is not shared: the workdir for the first one, a folder in it for the others."""
    path = workdir / f"process_{jax.process_index()}" if jax.process_index() else workdir
    path.mkdir(parents=True, exist_ok=True)
    return path


def fed(batch: typing.Any, sharding: jax.sharding.NamedSharding) -> typing.Any:
    """Arrays over all devices whose rows are those that each process holds, in order of processes."""
    if jax.process_count() == 1:
        return batch
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), batch)


def known_to_all(tree: typing.Any) -> typing.Any:
    """Values that are equal in every process, in the form in which one program over all devices takes them."""
    return tree if jax.process_count() == 1 else jax.tree.map(np.asarray, tree)


def total(value: float) -> float:
    """Sum of a number over the processes."""
    return value if jax.process_count() == 1 else float(multihost_utils.process_allgather(np.float64(value)).sum())


def most(value: int) -> int:
    """Largest of a number over the processes."""
    return value if jax.process_count() == 1 else int(multihost_utils.process_allgather(np.int32(value)).max())


def _check(settings: Settings) -> None:
    processes: ProcessSettings = settings.processes
    if not processes.coordinator:
        raise SettingsError("processes.coordinator = '': expected host:port of the first process")
    if processes.index >= processes.count:
        raise SettingsError(f"processes.index = {processes.index}: expected less than processes.count")
    shared = {
        "data.micro_rows": settings.data.micro_rows,
        "sft.batch": settings.sft.batch,
        "grpo.problems": settings.grpo.problems,
        "mesh.data * mesh.fsdp": settings.mesh.data * settings.mesh.fsdp,
    }
    for name, value in shared.items():
        if value % processes.count:
            raise SettingsError(f"{name} = {value}: expected a multiple of processes.count = {processes.count}")
