"""Decontamination and statement quality: nothing that an evaluation set asks, nothing that cannot be read (stage 1).

Where the paper asks a language model whether a statement is malformed, these are rules that a reader can check.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping

import numpy as np

from beam_pipelines import similarity
from beam_pipelines.records import Problem, Rejection, count_stage, rejection_of
from beam_pipelines.stages.stage import Stage

NAME = "deduplicate"
MIN_WORDS = 5
WORDS_A_PICTURE = 20
# What the scrapers of contest archives leave where a formula or a drawing was.
PICTURE = re.compile(r"<image>|!\[[^\]]*\]\(|<img\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, eq=False)
class EvaluationSet:
    """Statements that must not be trained on.

    Attributes:
      names: what each is called, for reports.
      texts: normalized statements, in the same order.
      signatures: uint64[n, 128]; MinHash signatures, in the same order.
    """

    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    signatures: np.ndarray = dataclasses.field(
        default_factory=lambda: np.zeros((0, similarity.PERMUTATIONS), np.uint64)
    )


def evaluation_set(statements: Mapping[str, str]) -> EvaluationSet:
    """Normalize and hash statements once, for all problems that will be compared with them.

    Args:
      statements: name -> statement; may be empty.
    """
    if not statements:
        return EvaluationSet()
    return EvaluationSet(
        names=tuple(statements),
        texts=tuple(similarity.normalize_statement(text) for text in statements.values()),
        signatures=np.array([similarity.minhash_signature(text) for text in statements.values()]),
    )


def deduplicate_stage(held_out: EvaluationSet, *, similar: float) -> Stage:
    """Make the stage that removes problems of evaluation sets and statements of poor quality."""
    return Stage(NAME, functools.partial(deduplicate, held_out=held_out, similar=similar))


def deduplicate(
    problem: Problem, *, held_out: EvaluationSet, similar: float = similarity.SIMILAR
) -> Problem | Rejection:
    """Reject a problem that an evaluation set contains or whose statement cannot be understood.

    Args:
      problem: as its source gives it.
      held_out: statements of the evaluation sets.
      similar: estimated Jaccard similarity, in (0, 1], from which two statements are the same.

    Returns:
      The problem, or a rejection as `evaluation_duplicate` (word for word), `evaluation_near_duplicate`, or under the
      quality rule that the statement breaks.
    """
    if reason := broken_quality_rule(problem.statement):
        return rejection_of(problem, NAME, reason=reason)
    text = similarity.normalize_statement(problem.statement)
    if text in held_out.texts:
        return rejection_of(
            problem, NAME, reason="evaluation_duplicate", detail=held_out.names[held_out.texts.index(text)]
        )
    if held_out.names:
        alike = similarity.jaccard_estimate(similarity.minhash_signature(problem.statement), held_out.signatures)
        closest = int(alike.argmax())
        if alike[closest] >= similar:
            detail = f"{held_out.names[closest]}, similarity {alike[closest]:.2f}"
            return rejection_of(problem, NAME, reason="evaluation_near_duplicate", detail=detail)
    return count_stage(problem, NAME)


def broken_quality_rule(statement: str) -> str:
    """Return the name of the first quality rule that a statement breaks; empty if it breaks none."""
    words = similarity.normalize_statement(statement).split()
    if not words:
        return "statement_missing"
    if len(words) < MIN_WORDS:
        return "statement_too_short"
    if "\ufffd" in statement or any(ord(one) < 32 and one not in "\n\t\r\f" for one in statement):
        return "statement_garbled"
    if len(PICTURE.findall(statement)) * WORDS_A_PICTURE > len(words):
        return "statement_needs_pictures"
    return ""
