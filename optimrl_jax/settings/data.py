"""The dataset, and how texts become rows of tokens and back."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NOT_NEGATIVE,
    POSITIVE,
    TEXTS,
    setting,
)

INSTRUCTION = (
    "Solve this task with a Python 3 program that reads standard input and writes standard output. It has to be "
    "correct, and as fast as possible on large inputs. Answer with the whole program in one code block."
    "\n\n{statement}"
)


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """The dataset, the lengths of prompts and completions, and how texts become rows of tokens and back."""

    directory: str = setting("", "prepared DMC-Optim dataset")
    train_split: str = setting(
        "rl_train", "split the policy is trained on, or a mixed pool: rl_train[:478]+non_filterable[:522]"
    )
    learned_references: str = setting(
        "", "workdir of an earlier run whose fastest correct rollouts join the references; empty: humans alone"
    )
    test_split: str = setting("rl_test", "held-out split")
    prompt_tokens: int = setting(48, "longest prompt, tokens", POSITIVE)
    completion_tokens: int = setting(48, "longest completion, tokens", POSITIVE)
    row_tokens: int = setting(256, "length of the rows that sequences are packed into, tokens", POSITIVE)
    micro_rows: int = setting(8, "packed rows whose gradients are computed at once", POSITIVE)
    shares_prompts: bool = setting(True, "a GRPO update processes a prompt once for the rollouts of it in a row")
    slots: int = setting(
        0,
        "rollouts sampled side by side, each replaced as it ends; 0: all at once (on a mesh, equally many a device)",
        NOT_NEGATIVE,
    )
    stop: tuple[str, ...] = setting((), "texts that end a completion, beside its end token", TEXTS)
    system: str = setting("", "what a chat model is told before the task; empty: nothing")
    instruction: str = setting(
        INSTRUCTION, "what a chat model is asked, {statement} standing for the task; empty: the statement alone"
    )
    prompt_function: str = setting("", "own prompt, FILE.py:FUNCTION of a statement; empty: the instruction")
    answer_function: str = setting("", "own extraction, FILE.py:FUNCTION of a completion; empty: its last code block")
