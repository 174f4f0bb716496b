"""Edge: prints what a dry run found, and refuses what does not fit."""

from collections.abc import Mapping, Sequence

import rich.console
import rich.table

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.planning import cost_model, targets
from optimrl_jax.settings import Settings

GIB = targets.GIB


def print_parameters(parameters: Sequence[cost_model.ParameterLine], settings: Settings) -> None:
    """Print each parameter with its shape, its type and how the mesh splits it."""
    axes = " x ".join(f"{name} {size}" for name, size in zip(sharding.AXES, settings.mesh.shape, strict=True))
    table = rich.table.Table(title=f"parameters on {axes}")
    table.add_column("parameter", no_wrap=True)
    for name in ("shape", "type", "split over"):
        table.add_column(name)
    table.add_column("MiB a device", justify="right")
    for line in parameters:
        shape = "x".join(map(str, line.shape))
        table.add_row(line.name, shape, line.dtype, line.spec, f"{line.device_bytes / 2**20:,.1f}")
    rich.console.Console().print(table)


def print_memory(found: Mapping[str, float], settings: Settings) -> None:
    """Print the memory of one device; traced figures are those before a compiler fuses or rematerializes anything."""
    target = targets.TARGETS[settings.device.target]
    how = (
        "compiled" if "temporary_bytes" in found else f"traced only: `make compiler TARGET={target.platform}` for more"
    )
    table = rich.table.Table(title=f"memory of each of {found['devices']} {settings.device.target}, {how}")
    table.add_column("part")
    table.add_column("GiB", justify="right")
    for name in (name for name in found if name.endswith("_bytes") and not name.startswith("sent_")):
        table.add_row(name.removesuffix("_bytes").replace("_", " "), f"{found[name] / GIB:,.3f}")
    table.add_row("of the device", f"{target.memory_bytes / GIB:,.3f}")
    rich.console.Console().print(table)


def print_roofline(found: Mapping[str, float], settings: Settings) -> None:
    """Print the shortest time that an update could take, and the share of the peak that this leaves."""
    bounds = {name: found[name] for name in ("compute_s", "memory_s", "link_s")}
    if bound_s := max(bounds.values()):
        # Without the compiler nobody has counted bytes of memory and links.
        parts = ", ".join(f"{name.removesuffix('_s')} {seconds:.3g} s" for name, seconds in bounds.items() if seconds)
        print(
            f"an update takes at least {bound_s:.3g} s on {settings.device.target}: {parts}; "
            f"MFU at most {found['roofline_mfu']:.0%}"
        )


def require_room(found: Mapping[str, float], settings: Settings) -> None:
    """Raise UserError where a device that learns or samples would hold more than it has room for."""
    room = targets.TARGETS[settings.device.target].memory_bytes
    for part, does in (("update", "learns"), ("sampling", "samples")):
        needed = found.get(f"{part}_total_bytes", 0)
        if needed > room:
            raise UserError(
                f"mesh = {settings.mesh.shape}: does not fit: {needed / GIB:.1f} of {room / GIB:.0f} GiB on each "
                f"{settings.device.target} that {does}"
            )
