"""Edge: Hugging Face checkpoints (`config.json` and safetensors, sharded or not) in and out, one tensor at a time.

Host memory never holds two copies of a model: files are mapped, each tensor goes straight to its place in the stacked
parameter, and a finished parameter can leave for the devices before the next one is allocated.
"""

import contextlib
import json
import pathlib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.jobs.files import write_json
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained.config import config_from_settings, settings_from_config
from optimrl_jax.model.pretrained.names import HUGGING_FACE, StoredParameter, stored_parameters
from optimrl_jax.settings import ModelSettings

CONFIG_FILE = "config.json"
SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
SHARD_BYTES = 4 * 10**9
Placement = Callable[[str], jax.sharding.Sharding]


class TensorSource(typing.Protocol):
    """Where tensors come from: shapes by name, and one tensor at a time."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def tensor(self, name: str) -> np.ndarray: ...


def load_hugging_face(
    directory: str | pathlib.Path, *, dtype: str = "float32", placement: Placement | None = None
) -> tuple[ModelSettings, decoder.Params]:
    """Read the settings and parameters of a checkpoint.

    Args:
      directory: holds `config.json` and safetensors, sharded or not.
      dtype: of the parameters, whatever the type of the file.
      placement: the sharding of each parameter by its path; without it they are NumPy arrays. For a mesh:
        `lambda path: NamedSharding(mesh, spec_of(path))` with the rules of `distributed.sharding`.

    Raises:
      UserError: in one line, for a missing file, an unknown model type or field, and a missing, unknown or misshapen
        tensor.
    """
    path = pathlib.Path(directory)
    settings = read_model_settings(path)
    with contextlib.ExitStack() as files:
        stored = _Files({file.name: _open_tensors(file, files) for file in _weight_files(path)})
        params = assemble_parameters(
            settings, stored, names=HUGGING_FACE, source=path, dtype=dtype, placement=placement
        )
    return settings, params


def read_model_settings(directory: pathlib.Path) -> ModelSettings:
    """Return the decoder that `config.json` describes; raise UserError where there is none that fits."""
    path = directory / CONFIG_FILE
    try:
        return settings_from_config(_json(path))
    except SettingsError as error:
        raise UserError(f"{path}: {error}") from None


def assemble_parameters(
    settings: ModelSettings,
    stored: TensorSource,
    *,
    names: Mapping[str, str],
    source: pathlib.Path,
    dtype: str,
    placement: Placement | None,
) -> decoder.Params:
    """Assemble the parameters of a decoder from stored tensors.

    Only one stacked parameter is in host memory at a time where `placement` sends it away.

    Args:
      settings: shape of the decoder.
      stored: shapes by name, and one tensor at a time.
      names: names of the stored tensors (`names.HUGGING_FACE`, `names.GGUF`).
      source: where they come from, for messages.
      dtype: of the parameters.
      placement: the sharding of each parameter by its path; without it they are NumPy arrays.

    Raises:
      UserError: where a tensor is missing, unknown or misshapen, naming `source`.
    """
    parameters = stored_parameters(settings)
    _require_equal(parameters, stored, names, source)
    params: decoder.Params = {}
    for parameter in parameters:
        whole = np.empty(parameter.stacked_shape, jnp.dtype(dtype))
        for layer, name in enumerate(parameter.stored_names(names)):
            place = whole if parameter.layers is None else whole[layer]
            place[...] = parameter.from_stored(stored.tensor(name))
        *folders, leaf = parameter.path.split("/")
        node = params
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = whole if placement is None else jax.device_put(whole, placement(parameter.path))
    return params


def save_hugging_face(
    directory: str | pathlib.Path,
    settings: ModelSettings,
    params: decoder.Params,
    *,
    shard_bytes: int = SHARD_BYTES,
    dtype: str = "float32",
    fields: Mapping[str, typing.Any] = types.MappingProxyType({}),
) -> None:
    """Write a checkpoint that `transformers` reads; only one shard is copied at a time.

    `config.json` comes last: what has none is no checkpoint.

    Args:
      directory: made where it does not exist.
      settings: shape of the decoder.
      params: parameters with stacked layers.
      shard_bytes: the most that a file holds; a larger tensor has one of its own.
      dtype: of the stored tensors.
      fields: more of `config.json`: what the model computes is there already.

    Raises:
      UserError: where the directory already holds weights.
    """
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    require_no_weights(path)
    kind = jnp.dtype(dtype)
    shards = list(_shards(stored_parameters(settings), shard_bytes, kind.itemsize))
    files = [SINGLE_FILE] if len(shards) == 1 else [_shard_file(n, len(shards)) for n in range(len(shards))]
    with JobProgress("files", len(files)) as progress:
        for number, (file, shard) in enumerate(zip(files, shards, strict=True), start=1):
            tensors = {name: stored_tensor(params, parameter, layer, kind) for name, parameter, layer in shard}
            safetensors.numpy.save_file(tensors, str(path / file), metadata={"format": "pt"})
            progress.advance_to(number, file)
    if len(shards) > 1:
        weight_map = {name: file for file, shard in zip(files, shards, strict=True) for name, _, _ in shard}
        total = sum(_size(parameter) for shard in shards for _, parameter, _ in shard) * kind.itemsize
        write_json(path / INDEX_FILE, {"metadata": {"total_size": total}, "weight_map": weight_map})
    write_json(path / CONFIG_FILE, {**config_from_settings(settings), "torch_dtype": dtype, "dtype": dtype, **fields})


def named_tensors(
    settings: ModelSettings, params: decoder.Params, *, dtype: str = "float32"
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of a checkpoint one at a time.

    Args:
      settings: shape of the decoder.
      params: parameters with stacked layers.
      dtype: of the tensors.

    Yields:
      Pairs of the Hugging Face name and a NumPy array.
    """
    kind = jnp.dtype(dtype)
    for parameter in stored_parameters(settings):
        for layer, name in enumerate(parameter.stored_names(HUGGING_FACE)):
            yield name, stored_tensor(params, parameter, None if parameter.layers is None else layer, kind)


def require_no_weights(path: pathlib.Path) -> None:
    """Raise UserError where a directory already holds weights."""
    if any(path.glob("*.safetensors")) or (path / CONFIG_FILE).exists():
        raise UserError(f"{path}: expected a directory without weights to write to")


class _Files:
    """Open safetensors files as one mapping from tensor names."""

    def __init__(self, files: Mapping[str, safetensors.safe_open]) -> None:
        self._owner = {name: file for file in files.values() for name in file.keys()}  # noqa: SIM118 - no iterator
        self.shapes = {name: tuple(file.get_slice(name).get_shape()) for name, file in self._owner.items()}

    def tensor(self, name: str) -> np.ndarray:
        return self._owner[name].get_tensor(name)


def _open_tensors(path: pathlib.Path, files: contextlib.ExitStack) -> safetensors.safe_open:
    try:
        return files.enter_context(safetensors.safe_open(str(path), framework="numpy"))
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: expected a complete safetensors file ({str(error).splitlines()[0]})") from None


def _weight_files(path: pathlib.Path) -> list[pathlib.Path]:
    """List the single file, or every shard that the index names."""
    if not (path / INDEX_FILE).exists():
        return [path / SINGLE_FILE]
    weight_map = _json(path / INDEX_FILE).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{path / INDEX_FILE}: expected a weight_map of tensor names to files")
    return [path / name for name in sorted(set(weight_map.values()))]


def _require_equal(
    parameters: Iterable[StoredParameter], stored: TensorSource, names: Mapping[str, str], source: pathlib.Path
) -> None:
    wanted = {name: parameter.stored_shape for parameter in parameters for name in parameter.stored_names(names)}
    for problem, different in (("missing", wanted.keys() - stored.shapes), ("unknown", stored.shapes.keys() - wanted)):
        if different:
            rest = f" and {len(different) - 1} more" if len(different) > 1 else ""
            raise UserError(f"{source}, {problem} tensor {min(different)}{rest}: expected those of its configuration")
    for name, shape in wanted.items():
        if stored.shapes[name] != shape:
            raise UserError(f"{source}, {name} has shape {stored.shapes[name]}: expected {shape}")


def _shards(
    parameters: Iterable[StoredParameter], shard_bytes: int, itemsize: int
) -> Iterator[list[tuple[str, StoredParameter, int | None]]]:
    shard: list[tuple[str, StoredParameter, int | None]] = []
    filled = 0
    for parameter in parameters:
        for layer, name in enumerate(parameter.stored_names(HUGGING_FACE)):
            size = _size(parameter) * itemsize
            if shard and filled + size > shard_bytes:
                yield shard
                shard, filled = [], 0
            shard.append((name, parameter, None if parameter.layers is None else layer))
            filled += size
    yield shard


def stored_tensor(params: decoder.Params, parameter: StoredParameter, layer: int | None, kind: np.dtype) -> np.ndarray:
    """Return one layer of a parameter as a checkpoint stores it, copied only where it has to be.

    Args:
      params: parameters with stacked layers.
      parameter: which one, and how it is stored.
      layer: its number; None for a parameter without a layer axis.
      kind: type of the result.
    """
    whole: typing.Any = params
    for name in parameter.path.split("/"):
        whole = whole[name]
    values = np.asarray(whole if layer is None else whole[layer])
    return np.ascontiguousarray(parameter.to_stored(values).astype(kind, copy=False))


def _size(parameter: StoredParameter) -> int:
    return int(np.prod(parameter.stored_shape))


def _shard_file(number: int, total: int) -> str:
    return f"model-{number + 1:05d}-of-{total:05d}.safetensors"


def _json(path: pathlib.Path) -> dict[str, typing.Any]:
    try:
        content = json.loads(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the file of a Hugging Face checkpoint") from None
    except ValueError as error:
        raise UserError(f"{path}: expected JSON ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object")
    return content
