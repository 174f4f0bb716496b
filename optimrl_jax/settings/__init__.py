"""Every setting with its unit and its check, as frozen dataclasses built once from a ConfigDict at the entry point.

`configs/*.py` give plain values (`ml_collections.ConfigDict`); `checked_fields.freeze` turns them into these classes
and raises `SettingsError` naming field, value and what was expected. Nothing past the entry point reads a ConfigDict.

One module for each group of sections; `Settings` puts them together, and everybody imports from here.
"""

import dataclasses

from optimrl_jax.jobs.checked_fields import SEED, section, setting
from optimrl_jax.settings.data import INSTRUCTION, DataSettings
from optimrl_jax.settings.devices import DeviceSettings, MeshSettings, ProcessSettings
from optimrl_jax.settings.execution import SandboxSettings
from optimrl_jax.settings.model import ComputeSettings, ModelSettings, Network
from optimrl_jax.settings.policies import EvaluationSettings, ServeSettings
from optimrl_jax.settings.recipes import CheckpointSettings, GrpoSettings, LoraSettings, SftSettings
from optimrl_jax.settings.reporting import MetricsSettings
from optimrl_jax.settings.reward import EnvironmentSettings, NoiseSettings, RewardSettings
from optimrl_jax.settings.sampling import ActorSettings, EngineSettings

__all__ = [
    "INSTRUCTION",
    "ActorSettings",
    "CheckpointSettings",
    "ComputeSettings",
    "DataSettings",
    "DeviceSettings",
    "EngineSettings",
    "EnvironmentSettings",
    "EvaluationSettings",
    "GrpoSettings",
    "LoraSettings",
    "MeshSettings",
    "MetricsSettings",
    "ModelSettings",
    "Network",
    "NoiseSettings",
    "ProcessSettings",
    "RewardSettings",
    "SandboxSettings",
    "ServeSettings",
    "Settings",
    "SftSettings",
]


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a job, by section."""

    seed: int = setting(0, "the one seed; every stream is folded from it", SEED)
    model: ModelSettings = section(ModelSettings)
    compute: ComputeSettings = section(ComputeSettings)
    data: DataSettings = section(DataSettings)
    mesh: MeshSettings = section(MeshSettings)
    processes: ProcessSettings = section(ProcessSettings)
    device: DeviceSettings = section(DeviceSettings)
    sft: SftSettings = section(SftSettings)
    environment: EnvironmentSettings = section(EnvironmentSettings)
    reward: RewardSettings = section(RewardSettings)
    noise: NoiseSettings = section(NoiseSettings)
    sandbox: SandboxSettings = section(SandboxSettings)
    grpo: GrpoSettings = section(GrpoSettings)
    lora: LoraSettings = section(LoraSettings)
    actors: ActorSettings = section(ActorSettings)
    engine: EngineSettings = section(EngineSettings)
    checkpoints: CheckpointSettings = section(CheckpointSettings)
    metrics: MetricsSettings = section(MetricsSettings)
    evaluation: EvaluationSettings = section(EvaluationSettings)
    serve: ServeSettings = section(ServeSettings)

    @property
    def network(self) -> Network:
        """The decoder of `model`, computed as `compute` says."""
        return Network.of(self.model, self.compute)
