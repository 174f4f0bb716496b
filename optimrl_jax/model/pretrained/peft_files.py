"""Edge: adapters as `peft` reads them: `adapter_config.json` and `adapter_model.safetensors`, beside published weights.

`PeftModel.from_pretrained(base, DIRECTORY)` adds them to the base, which is loaded by itself.
"""

import pathlib
import typing
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.files import write_json
from optimrl_jax.model import adapters, decoder
from optimrl_jax.model.pretrained.names import HUGGING_FACE
from optimrl_jax.settings import LoraSettings

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
WEIGHT = ".weight"


def save_for_peft(
    directory: pathlib.Path, tree: decoder.Params, lora: LoraSettings, *, base: str, dtype: str = "float32"
) -> None:
    """Write adapters; the configuration comes last.

    Args:
      directory: made where it does not exist.
      tree: adapters with a leading layer axis.
      lora: rank, alpha and adapted matrices.
      base: where the weights are that they belong beside, for readers of the configuration.
      dtype: of the stored tensors.

    Raises:
      UserError: where the directory already holds adapters.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / CONFIG_FILE).exists() or (directory / WEIGHTS_FILE).exists():
        raise UserError(f"{directory}: expected a directory without adapters to write to")
    tensors = {name: values.astype(jnp.dtype(dtype)) for name, values in _tensors(tree, lora)}
    safetensors.numpy.save_file(tensors, str(directory / WEIGHTS_FILE), metadata={"format": "pt"})
    modules = [_module(name, layer=0).rsplit(".", 1)[1] for name in adapters.MATRICES if name in lora.targets]
    config: dict[str, typing.Any] = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
        "r": lora.rank, "lora_alpha": lora.alpha, "lora_dropout": 0.0, "bias": "none", "use_rslora": False,
        "fan_in_fan_out": False, "inference_mode": True, "target_modules": modules,
    }  # fmt: skip
    write_json(directory / CONFIG_FILE, config)


def _tensors(tree: decoder.Params, lora: LoraSettings) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the two matrices of each layer, as outputs times inputs: A `[rank, inputs]`, B `[outputs, rank]`."""
    for name, (block, _) in adapters.MATRICES.items():
        pair = tree["layers"].get(block, {}).get(name + adapters.SUFFIX)
        if pair is None:
            continue
        for layer, (down, up) in enumerate(zip(np.asarray(pair["down"]), np.asarray(pair["up"]), strict=True)):
            module = f"base_model.model.{_module(name, layer=layer)}"
            yield f"{module}.lora_A{WEIGHT}", np.ascontiguousarray(down.reshape(-1, lora.rank).T)
            yield f"{module}.lora_B{WEIGHT}", np.ascontiguousarray(up.reshape(lora.rank, -1).T)


def _module(name: str, *, layer: int) -> str:
    """Return the name of the module of `transformers` that holds a matrix."""
    return HUGGING_FACE[f"layers/{adapters.MATRICES[name][0]}/{name}"].format(layer=layer).removesuffix(WEIGHT)
