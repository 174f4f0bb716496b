"""What a learner accepts from actors elsewhere: groups of this very run, and actors of this very job.

Pure, but that files of the user's own functions are read. Anything that does not fit raises MessageError; nothing is
trusted because it arrived.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.data.prompts import text_facts
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.distributed.codec import MessageError
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.settings import Settings

# Of these sections only some fields shape a rollout.
ROLLOUT_FIELDS = {"grpo": ("rollouts", "temperature"), "compute": ("dtype",)}
# Where programs run, which may differ from host to host.
SANDBOX_PLACE = ("address", "workers", "store", "reuse")


def decode_groups(
    arrays: Mapping[str, np.ndarray], *, settings: Settings, vocabulary: int, step: int
) -> list[groups_lib.Group]:
    """Decode and check groups that come from elsewhere.

    Args:
      arrays: what `groups.stack_groups` made, by name.
      settings: those of the job; they determine every shape.
      vocabulary: number of token ids.
      step: newest policy version of the run; no rollout can be newer.

    Raises:
      MessageError: for a name, shape, type or value that could not come from an actor of this run.
    """
    r, t = settings.grpo.rollouts, settings.data.prompt_tokens + settings.data.completion_tokens
    expected = {"tokens": (r, t), "is_completion": (r, t), "log_prob": (r, t), "policy_version": (r,)}
    expected |= dict.fromkeys(("reward", "is_valid", "is_correct", "is_fast", "is_cut"), (r,))
    expected |= dict.fromkeys(("problem", "batch", "place"), ())
    number = arrays["problem"].size if "problem" in arrays else 0
    shapes = {name: (number, *shape) for name, shape in expected.items()}
    if not number or {name: array.shape for name, array in arrays.items()} != shapes:
        raise MessageError(f"expected groups of {r} rollouts of {t} tokens")
    kinds = {name: np.dtype(np.bool_ if name.startswith("is_") else np.int32) for name in expected}
    kinds |= {name: np.dtype(np.float32) for name in ("log_prob", "reward")}
    if {name: array.dtype for name, array in arrays.items()} != kinds:
        raise MessageError("expected groups with the types of this version")
    _check_range("tokens", arrays["tokens"], 0, vocabulary - 1)
    _check_range("policy_version", arrays["policy_version"], 0, step)
    if not arrays["is_completion"].any(axis=2).all() or not np.isfinite(arrays["reward"][arrays["is_valid"]]).all():
        raise MessageError("expected sampled tokens in every rollout and finite rewards")
    return groups_lib.unstack_groups(arrays)


def job_id(settings: Settings, records: Sequence[ProblemRecord], tokenizer: Tokenizer) -> str:
    """Hash what learner and actors must agree on: everything that decides what a rollout is and what it earns.

    That is the settings that shape a rollout (not where programs run), the tokenizer, and of each problem its text,
    tests and reference durations.

    Returns:
      A SHA-256 digest in hexadecimal.
    """
    values = thaw(settings)
    shared = {name: values[name] for name in ("seed", "environment", "reward", "noise")}
    for section, names in ROLLOUT_FIELDS.items():
        shared[section] = {name: values[section][name] for name in names}
    shared["data"] = text_facts(settings.data)
    shared["sandbox"] = {name: value for name, value in values["sandbox"].items() if name not in SANDBOX_PLACE}
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode())
    digest.update(tokenizer.model.to_str().encode())
    for record in records:
        texts = (record.id, record.statement, record.checker, *record.test_input, *record.test_output)
        digest.update(json.dumps([*texts, *record.reference_id]).encode())
        for array in (record.test_kind, record.duration_s, record.std_s, record.runs, record.status):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _check_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.min() < low or values.max() > high:
        raise MessageError(f"{name}: expected values in [{low}, {high}]")
