"""The devices and processes of a job, and the accelerator that a dry run plans for."""

import dataclasses
import math

from optimrl_jax.jobs.checked_fields import (
    ADDRESS,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    WAIT_S,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class MeshSettings:
    """Devices along each axis of the learner's mesh; their product is the number of devices used."""

    data: int = setting(1, "copies of the weights", POSITIVE)
    fsdp: int = setting(1, "parts each parameter is split into, gathered layer by layer", POSITIVE)
    tensor: int = setting(1, "parts heads and hidden features are split into", POSITIVE)
    sequence: int = setting(
        1, "parts the tokens of each row are split into, but for attention, where heads are; parameters too", POSITIVE
    )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Devices along data, fsdp, sequence and tensor."""
        return self.data, self.fsdp, self.sequence, self.tensor

    @property
    def devices(self) -> int:
        """Devices of the mesh."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class ProcessSettings:
    """Processes that make one step together, each on its own devices with its share of the examples or problems."""

    count: int = setting(1, "processes", POSITIVE)
    index: int = setting(0, "which of them this one is, from 0", NOT_NEGATIVE)
    coordinator: str = setting("", "host:port at which process 0 waits for the others", ADDRESS)
    wait_s: float = setting(300.0, "how long to wait for the others at the start, s", WAIT_S)


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """What `--dry_run` plans for; real runs never read it."""

    target: str = setting(
        "h100",
        "accelerator whose facts, and compiler where it is installed, a dry run uses",
        one_of("h100", "h200", "b200", "tpu-v5e", "tpu-v5p", "tpu-v6e"),
    )
    length_share: float = setting(1.0, "typical sequence, as a share of the longest allowed", SHARE)
