"""Edge: published weights by what a setting says: a Hugging Face directory, a GGUF file, or a package that carries one.

`gguf:PACKAGE` is the only GGUF file in an installed package; the package is found, never imported. No network.
"""

import dataclasses
import importlib.util
import pathlib

import jax

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained import gguf, hugging_face
from optimrl_jax.settings import ModelSettings

PACKAGE = "gguf:"
SUFFIX = ".gguf"


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
    """A published model: what the decoder and the prompts need of it.

    Attributes:
      settings: shape of the decoder.
      params: parameters with stacked layers.
      tokenizer: of at most as many tokens as the embedding has rows.
    """

    settings: ModelSettings
    params: decoder.Params
    tokenizer: tokenizer_lib.Tokenizer


def names_published_weights(source: str) -> bool:
    """Say whether a setting names published weights rather than the workdir of a job."""
    path = pathlib.Path(source)
    return _is_gguf(source) or (path / hugging_face.CONFIG_FILE).exists()


def load_published(source: str, *, mesh: jax.sharding.Mesh | None = None) -> Pretrained:
    """Read the weights that `source` names, with their shape and their tokenizer.

    Args:
      source: a directory, a GGUF file, or `gguf:PACKAGE`.
      mesh: parameters go straight to their places on it, one stacked parameter at a time; without one they are NumPy
        arrays.

    Raises:
      UserError: in one line, where they are missing or broken, or the tokenizer does not fit the embedding.
    """
    placement = None
    if mesh is not None:

        def placement(path: str) -> jax.sharding.Sharding:
            return jax.sharding.NamedSharding(mesh, sharding.spec_of(path))

    if _is_gguf(source):
        path = _gguf_file(source)
        settings, params, tokenizer = gguf.load_gguf(path, placement=placement)
    else:
        path = pathlib.Path(source)
        # First, so that a path without weights is not reported as one without tokenizer.
        hugging_face.read_model_settings(path)
        tokenizer = tokenizer_lib.load_tokenizer(path)
        settings, params = hugging_face.load_hugging_face(path, placement=placement)
    if tokenizer.size > settings.vocabulary:
        raise UserError(f"{path}: expected a tokenizer of at most {settings.vocabulary} tokens, found {tokenizer.size}")
    return Pretrained(settings, params, tokenizer)


def read_shape(source: str) -> ModelSettings:
    """Read the shape of the weights that `source` names, without the weights.

    Args:
      source: a directory, a GGUF file, or `gguf:PACKAGE`.

    Raises:
      UserError: in one line, where it is missing or of another kind.
    """
    if _is_gguf(source):
        path = _gguf_file(source)
        return gguf.read_gguf_shape(gguf.open_gguf(path), path)
    return hugging_face.read_model_settings(pathlib.Path(source))


def _is_gguf(source: str) -> bool:
    return source.startswith(PACKAGE) or source.endswith(SUFFIX)


def _gguf_file(source: str) -> pathlib.Path:
    return find_carried(source.removeprefix(PACKAGE)) if source.startswith(PACKAGE) else pathlib.Path(source)


def find_carried(package: str) -> pathlib.Path:
    """Return the only GGUF file in an installed package; raise UserError where there is not exactly one."""
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"{PACKAGE}{package}: expected an installed package that carries a GGUF file")
    files = [file for folder in spec.submodule_search_locations for file in pathlib.Path(folder).glob(f"*{SUFFIX}")]
    if len(files) != 1:
        raise UserError(f"{PACKAGE}{package}: expected one GGUF file in it, found {len(files)}")
    return files[0]
