"""Edge: the files beside the weights that `transformers`, vLLM and their like read: tokenizer, ends, limits, template.

Takes what a policy is and writes what others need to use it as it was trained: its own tokenizer by a class that reads
`tokenizer.json` and nothing else, the token that ends a completion, the room for a context, and a chat template that
puts a statement as our prompts do.
"""

import dataclasses
import pathlib

from optimrl_jax.data.tokenizer import ROLES_FILE, Tokenizer
from optimrl_jax.jobs.files import write_json, write_text
from optimrl_jax.model.pretrained import hugging_face
from optimrl_jax.model.pretrained.shapes import CONTEXT_TOKENS, MODELS
from optimrl_jax.settings import ModelSettings

# Reads the file alone. Classes named after a model put a splitting of their own in place of the one in the file.
TOKENIZER_CLASS = "PreTrainedTokenizerFast"
# transformers 5 overrules the class for some types of models, Qwen2 among them, by the one that is named after the
# type, unless the tokenizer has a class of its own.
OWN_CLASS = "tokenization_policy"
OWN_CLASS_SOURCE = '''"""The tokenizer of this policy: what tokenizer.json says, and nothing else."""

from transformers import PreTrainedTokenizerFast


class PolicyTokenizer(PreTrainedTokenizerFast):
    """Reads tokenizer.json."""
'''
# Where neither a published shape nor a stretching of positions says how long a context may be.
DEFAULT_CONTEXT_TOKENS = 32_768
# A statement and the marker of its program, as `data.prompts.encode_prompt` puts them; more turns stand one by one.
PLAIN_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ 'PROGRAM' + message['content'] + 'END' }}"
    "{%- else -%}{{ ('' if loop.first else '\n\n') + (message['content'] | trim) }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'PROGRAM' }}{%- endif -%}"
)


def save_for_transformers(
    directory: pathlib.Path,
    settings: ModelSettings,
    params: dict,
    tokenizer: Tokenizer,
    *,
    dtype: str,
    context_tokens: int = 0,
) -> None:
    """Write a policy as a directory that `AutoTokenizer` and `AutoModelForCausalLM` load.

    Args:
      directory: made where it does not exist.
      settings: shape of the decoder.
      params: parameters with stacked layers.
      tokenizer: of the policy.
      dtype: of the stored tensors.
      context_tokens: prompt and completion together, at most; 0 takes what `context_of` says.

    Raises:
      UserError: where the directory already holds weights.
    """
    context = context_tokens or context_of(settings)
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad}
    fields = {**ends, "max_position_embeddings": context}
    # The configuration comes last, so that what is half written is no checkpoint.
    directory.mkdir(parents=True, exist_ok=True)
    hugging_face.require_no_weights(directory)
    _write_tokenizer(directory, tokenizer, context)
    write_json(directory / "generation_config.json", ends)
    hugging_face.save_hugging_face(directory, settings, params, dtype=dtype, fields=fields)


def context_of(settings: ModelSettings) -> int:
    """Return the tokens of a context: a published shape's own, a stretched one's, else `DEFAULT_CONTEXT_TOKENS`."""
    shape = ModelSettings(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(ModelSettings)})
    for name, published in MODELS.items():
        if published == shape:
            return CONTEXT_TOKENS[name]
    if settings.rope_scaling in ("llama3", "yarn"):
        return int(settings.rope_original_tokens * settings.rope_factor)
    return DEFAULT_CONTEXT_TOKENS


def _write_tokenizer(directory: pathlib.Path, tokenizer: Tokenizer, context_tokens: int) -> None:
    roles = (tokenizer.pad, tokenizer.end, tokenizer.program)
    pad, end, program = (str(tokenizer.model.id_to_token(token)) for token in roles)
    template = PLAIN_TEMPLATE.replace("PROGRAM", program).replace("END", end)
    if tokenizer.template:
        template = tokenizer.template.source
    else:
        # Says that `template` is for others: read again here, the tokenizer is the one that was trained.
        write_json(directory / ROLES_FILE, {"pad": pad, "end": end, "program": program})
    special = {"eos_token": end, "pad_token": pad}
    named = dict(tokenizer.template.special) if tokenizer.template else {}
    config = {
        **named,
        **special,
        "tokenizer_class": TOKENIZER_CLASS,
        "auto_map": {"AutoTokenizer": [None, f"{OWN_CLASS}.PolicyTokenizer"]},
        "model_max_length": context_tokens,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }
    write_json(directory / "special_tokens_map.json", {**named, **special})
    write_json(directory / "tokenizer_config.json", config)
    write_text(directory / "chat_template.jinja", template)
    write_text(directory / f"{OWN_CLASS}.py", OWN_CLASS_SOURCE)
    write_text(directory / "tokenizer.json", tokenizer.model.to_str(pretty=True))
