"""Edge: what an SFT job learns from: the programs of the dataset, or a mix of conversations, with the tokenizer for it.

Both give a resumable stream of steps and say how one becomes encoded examples; the job packs them and does not care
which of the two it has.
"""

import dataclasses
import functools
import logging
import pathlib
import typing
from collections.abc import Callable, Iterable, Sequence

from optimrl_jax.data import chat, dataset, mixes, packing, prompts, stream
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.settings import DataSettings, Settings

_LOG = logging.getLogger(__name__)
ALL = (0, 1)


class StepStream(typing.Protocol):
    """Steps in an order whose position can be stored."""

    def __next__(self) -> object: ...

    def get_state(self) -> dict: ...

    def set_state(self, state: dict) -> None: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """What an SFT job learns from.

    Attributes:
      stream: the steps, in an order whose position can be stored.
      encode: turns one step into encoded examples.
      microbatches: microbatches that hold the examples of any step.
      vocabulary: rows of the embedding table.
    """

    stream: StepStream
    encode: Callable[[typing.Any], mixes.ExampleStep]
    microbatches: int
    vocabulary: int


def corpus_of_dataset(directory: pathlib.Path, settings: Settings, *, part: tuple[int, int] = ALL) -> Corpus:
    """Open the reference programs of the training split; train the tokenizer on the first start.

    Args:
      directory: workdir of the job, where the tokenizer is kept.
      settings: `data`, `sft` and `model`.
      part: (i, n), this process among those that share the steps.

    Raises:
      UserError: where no problem fits the lengths of `data`.
      SettingsError: for `sft.batch_tokens`, which needs a mix, or rows too short for an example.
    """
    recipe, data = settings.sft, settings.data
    if recipe.batch_tokens:
        raise SettingsError(f"sft.batch_tokens = {recipe.batch_tokens}: expected 0 without sft.mix")
    if recipe.epochs:
        raise SettingsError(f"sft.epochs = {recipe.epochs}: expected 0 without sft.mix")
    records = dataset.load_records(data.directory, data.train_split)
    texts = [text for record in records for text in (record.statement, *record.reference_program)]
    tokenizer = _settle_tokenizer(directory, _given_tokenizer(directory, settings), texts, settings)
    fitting = _fitting(records, tokenizer, settings)
    return Corpus(
        stream.example_batches(fitting, batch=recipe.batch // part[1], seed=settings.seed, part=part),
        lambda pairs: mixes.ExampleStep([_example(tokenizer, *pair, data=data) for pair in pairs], left_out=0),
        sft_microbatches(settings, processes=part[1]),
        _vocabulary(tokenizer, settings),
    )


def corpus_of_mix(directory: pathlib.Path, settings: Settings, *, part: tuple[int, int] = ALL) -> Corpus:
    """Open the conversations of `sft.mix`, programs of datasets among them, in the chat template of `sft.tokenizer`.

    Without such a tokenizer, one is trained on the texts of the mix; an example is then what was said before, and the
    last answer.

    Args:
      directory: workdir of the job, where the tokenizer is kept.
      settings: `data`, `sft` and `model`.
      part: (i, n), this process among those that share the steps.

    Raises:
      UserError: for a source of the mix that is missing or empty.
      SettingsError: for settings that do not fit each other.
    """
    recipe, data = settings.sft, settings.data
    batch, tokens = recipe.batch // part[1], recipe.batch_tokens // part[1]
    if recipe.batch_tokens and tokens < data.row_tokens:
        raise SettingsError(f"sft.batch_tokens = {recipe.batch_tokens}: expected data.row_tokens for each process")
    given = _given_tokenizer(directory, settings)
    sources = mixes.open_mix(recipe.mix, data, is_chat=bool(given and given.template))
    texts = (said["content"] for source in sources for index in range(len(source)) for said in source[index])
    tokenizer = _settle_tokenizer(directory, given, texts, settings)
    examples = mixes.stream_mix(
        sources,
        [weight for _, weight in recipe.mix],
        encode=functools.partial(_conversation, tokenizer),
        seed=settings.seed,
        part=part,
        epochs=recipe.epochs,
    )
    return Corpus(
        mixes.ExampleSteps(examples, batch=batch, batch_tokens=tokens, longest=data.row_tokens),
        lambda step: step,
        sft_microbatches(settings, processes=part[1]),
        _vocabulary(tokenizer, settings),
    )


def sft_microbatches(settings: Settings, *, processes: int = 1) -> int:
    """Return the number of microbatches that hold what one process takes for a step.

    Args:
      settings: `data` and `sft`.
      processes: that share the steps.

    Raises:
      SettingsError: for rows shorter than the longest example.
    """
    recipe, data = settings.sft, settings.data
    tokens = recipe.batch_tokens // processes if recipe.mix else 0
    return packing.max_packed_microbatches(
        tokens or recipe.batch // processes,
        data.row_tokens if recipe.mix else data.prompt_tokens + data.completion_tokens,
        row_tokens=data.row_tokens,
        micro_rows=data.micro_rows // processes,
        tokens=tokens or None,
    )


def _example(
    tokenizer: tokenizer_lib.Tokenizer, statement: str, program: str, *, data: DataSettings | None = None
) -> chat.EncodedExample:
    asked, answered = prompts.encode_prompt(tokenizer, statement, data), prompts.encode_completion(tokenizer, program)
    return chat.concatenate_pieces([(asked, False), (answered, True)])


def _conversation(tokenizer: tokenizer_lib.Tokenizer, messages: Sequence[chat.Message]) -> chat.EncodedExample:
    if tokenizer.template:
        return chat.encode_conversation(tokenizer.template, messages, tokenize=tokenizer.encode)
    question = "\n".join(message["content"] for message in messages[:-1])
    return _example(tokenizer, question, messages[-1]["content"])


def _given_tokenizer(directory: pathlib.Path, settings: Settings) -> tokenizer_lib.Tokenizer | None:
    """Return the tokenizer this job started with, or that of `sft.tokenizer`; None where one is to be trained."""
    if (directory / tokenizer_lib.FILE_NAME).exists():
        return tokenizer_lib.load_tokenizer(directory)
    return tokenizer_lib.load_tokenizer(pathlib.Path(settings.sft.tokenizer)) if settings.sft.tokenizer else None


def _settle_tokenizer(
    directory: pathlib.Path, given: tokenizer_lib.Tokenizer | None, texts: Iterable[str], settings: Settings
) -> tokenizer_lib.Tokenizer:
    """Return the given tokenizer, or one trained on `texts`, which the workdir has from then on."""
    tokenizer = given or tokenizer_lib.train_tokenizer(texts, settings.model.vocabulary)
    if not (directory / tokenizer_lib.FILE_NAME).exists():
        tokenizer.save(directory)
    return tokenizer


def _vocabulary(tokenizer: tokenizer_lib.Tokenizer, settings: Settings) -> int:
    """Return the rows of the embedding table: the model's where the tokenizer belongs to one, else one a token."""
    if not settings.sft.tokenizer:
        return tokenizer.size
    if tokenizer.size > settings.model.vocabulary:
        raise SettingsError(
            f"model.vocabulary = {settings.model.vocabulary}: expected room for the {tokenizer.size} of sft.tokenizer"
        )
    return settings.model.vocabulary


def _fitting(
    records: Sequence[dataset.ProblemRecord], tokenizer: tokenizer_lib.Tokenizer, settings: Settings
) -> list[dataset.ProblemRecord]:
    """Keep the problems and programs that fit the lengths of `data`; count in the log what is left out."""
    data = settings.data
    kept, programs = [], 0
    for record in records:
        if len(prompts.encode_prompt(tokenizer, record.statement, data)) > data.prompt_tokens:
            continue
        fitting = tuple(
            program
            for program in record.reference_program
            if len(prompts.encode_completion(tokenizer, program)) <= data.completion_tokens
        )
        programs += len(fitting)
        if fitting:
            kept.append(dataclasses.replace(record, reference_program=fitting))
    if not kept:
        raise UserError(
            f"data.prompt_tokens = {data.prompt_tokens}, data.completion_tokens = {data.completion_tokens}: "
            "expected room for at least one statement with one of its programs"
        )
    total = sum(len(record.reference_program) for record in records)
    _LOG.info(
        "%d tokens in the vocabulary; %d of %d problems and %d of %d programs fit",
        tokenizer.size, len(kept), len(records), programs, total,
    )  # fmt: skip
    return kept
