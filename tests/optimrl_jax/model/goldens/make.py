"""Makes the golden files: tiny random models with the logits that `transformers` computes for them in float32.

Run with torch and transformers 5 in an environment of their own: `python tests/optimrl_jax/model/goldens/make.py`, all
of them or those named behind it.
Each folder holds `config.json`, `model.safetensors` and `expected.npz` (tokens int32[s, t], logits float32[s, t, v]).
"""

import pathlib
import sys

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
SHARED = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
          "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "beta_fast": 2.0, "beta_slow": 0.5}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
PLAIN = {"rope_type": "default", "rope_theta": 1e6}

# Lengths of 32 tokens lie beyond every window and beyond every original context.
MODELS = {
    "qwen2_tied": (transformers.Qwen2Config, {"num_hidden_layers": 2, "tie_word_embeddings": True, "rope": PLAIN}),
    "qwen2_untied_yarn": (transformers.Qwen2Config, {"num_hidden_layers": 1, "rope": YARN, "head_dim": 8}),
    "qwen2_window": (
        transformers.Qwen2Config,
        {"num_hidden_layers": 3, "tie_word_embeddings": True, "rope": PLAIN, "use_sliding_window": True,
         "sliding_window": 8, "max_window_layers": 1},
    ),
    "qwen3": (
        transformers.Qwen3Config,
        {"num_hidden_layers": 2, "tie_word_embeddings": True, "rope": PLAIN, "head_dim": 8},
    ),
    "llama_llama3": (
        transformers.LlamaConfig, {"num_hidden_layers": 2, "tie_word_embeddings": True, "rope": LLAMA3, "head_dim": 8}
    ),
    "llama_linear": (transformers.LlamaConfig, {"num_hidden_layers": 1, "tie_word_embeddings": True, "rope": LINEAR}),
    "mistral_window": (
        transformers.MistralConfig,
        {"num_hidden_layers": 2, "tie_word_embeddings": True, "rope": PLAIN, "sliding_window": 8},
    ),
    "cwm": (transformers.CwmConfig, {"num_hidden_layers": 5, "rope": LLAMA3, "head_dim": 8, "sliding_window": 8}),
}  # fmt: skip

SEEDS = {
    "cwm": 0,
    "llama_linear": 1,
    "llama_llama3": 2,
    "mistral_window": 3,
    "qwen2_tied": 4,
    "qwen2_untied_yarn": 5,
    "qwen2_window": 6,
    "qwen3": 7,
}


def make(name: str) -> None:
    kind, own = MODELS[name]
    own = dict(own)
    config = kind(**SHARED, rope_parameters=own.pop("rope"), attn_implementation="eager", **own)
    torch.manual_seed(SEEDS[name])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            # Far from the defaults, so that norms, biases and every row of attention make a difference.
            spread = 0.2 if parameter_name.endswith(("bias", "norm.weight")) else 0.25
            parameter.copy_(torch.randn_like(parameter) * spread + (1.0 if "norm" in parameter_name else 0.0))
        tokens = torch.randint(0, 32, (1, 32))
        logits = model(tokens).logits
    model.save_pretrained(HERE / name)
    (HERE / name / "generation_config.json").unlink(missing_ok=True)
    np.savez_compressed(HERE / name / "expected.npz", tokens=tokens.numpy().astype(np.int32), logits=logits.numpy())


if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        make(each)
