"""Every setting with its unit and its check, as frozen dataclasses built once from a ConfigDict at the entry point.

`configs/*.py` give plain values (`ml_collections.ConfigDict`); `checked_fields.freeze` turns them into these classes
and raises `SettingsError` naming field, value and what was expected. Nothing past the entry point reads a ConfigDict.
"""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NOT_NEGATIVE,
    OPEN_SHARE,
    PERCENT,
    POSITIVE,
    POSITIVE_SHARE,
    SHARE,
    TEXTS,
    one_of,
    section,
    setting,
)

INSTRUCTION = (
    "Solve this task with a Python 3 program that reads standard input and writes standard output. It has to be "
    "correct, and as fast as possible on large inputs. Answer with the whole program in one code block."
    "\n\n{statement}"
)


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Shape of the decoder (the Qwen2/Llama family)."""

    width: int = setting(128, "residual stream, features", POSITIVE)
    layers: int = setting(4, "decoder blocks", POSITIVE)
    heads: int = setting(4, "query heads", POSITIVE)
    kv_heads: int = setting(2, "key and value heads", POSITIVE)
    head_width: int = setting(32, "features of one head", POSITIVE)
    mlp_width: int = setting(352, "features of the gated hidden layer", POSITIVE)
    vocabulary: int = setting(2048, "tokens the tokenizer is trained to, at most", POSITIVE)
    rope_theta: float = setting(10_000.0, "base of the rotary frequencies", POSITIVE)
    rope_scaling: str = setting(
        "none", "how rotary frequencies are stretched for long contexts", one_of("none", "linear", "llama3", "yarn")
    )
    rope_factor: float = setting(1.0, "stretch of the slow rotary frequencies", POSITIVE)
    rope_original_tokens: int = setting(8192, "context before stretching, tokens (llama3, yarn)", POSITIVE)
    rope_slow_turns: float = setting(1.0, "turns over that context below which stretching is full", POSITIVE)
    rope_fast_turns: float = setting(4.0, "turns over that context above which nothing is stretched", POSITIVE)
    window: int = setting(0, "tokens that a local layer sees, itself included; 0: every layer is global", NOT_NEGATIVE)
    global_every: int = setting(0, "beside a window: layers 0, n, 2n, ... are global; 0: none of these", NOT_NEGATIVE)
    global_first: int = setting(0, "beside a window: so many first layers are global", NOT_NEGATIVE)
    norm_epsilon: float = setting(1e-6, "RMSNorm epsilon", POSITIVE)
    has_tied_embeddings: bool = setting(True, "output layer shares the embedding table")
    has_qkv_bias: bool = setting(True, "biases on query, key and value (Qwen2)")
    has_qk_norm: bool = setting(False, "norms on the query and the key of each head (Qwen3)")


@dataclasses.dataclass(frozen=True)
class ComputeSettings:
    """How the decoder is computed: type, memory and time of a step. But for the type, nothing here changes a result."""

    dtype: str = setting("float32", "activations, and weights as they are used", one_of("float32", "bfloat16"))
    remat: str = setting(
        "none",
        "what the backward pass computes again: nothing, all of a block, or all but products with weights",
        one_of("none", "block", "dots"),
    )
    unroll: int = setting(
        1, "layers of the update compiled one by one: faster, and longer to compile; 1: one for all", POSITIVE
    )
    attention_block: int = setting(
        0, "queries and keys whose attention weights exist at once; 0: the whole row", NOT_NEGATIVE
    )
    logits_chunk: int = setting(
        0, "tokens of a row whose scores over the vocabulary exist at once in the loss; 0: the whole row", NOT_NEGATIVE
    )


@dataclasses.dataclass(frozen=True)
class Network(ModelSettings):
    """A decoder's shape with how it is computed here: what the functions of `model` take. The shape alone is stored."""

    compute: ComputeSettings = section(ComputeSettings)

    @classmethod
    def of(cls, model: ModelSettings, compute: ComputeSettings) -> "Network":
        """Combine a shape with how it is computed."""
        shape = {field.name: getattr(model, field.name) for field in dataclasses.fields(ModelSettings)}
        return cls(**shape, compute=compute)


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """The dataset, the lengths of prompts and completions, and how texts become rows of tokens and back."""

    directory: str = setting("", "prepared DMC-Optim dataset")
    train_split: str = setting("rl_train", "split the policy is trained on")
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


@dataclasses.dataclass(frozen=True)
class MeshSettings:
    """Devices along each axis of the learner's mesh; their product is the number of devices used."""

    data: int = setting(1, "copies of the weights", POSITIVE)
    fsdp: int = setting(1, "parts each parameter is split into, gathered layer by layer", POSITIVE)
    tensor: int = setting(1, "parts heads and hidden features are split into", POSITIVE)


@dataclasses.dataclass(frozen=True)
class ProcessSettings:
    """Processes that make one step together, each on its own devices with its share of the examples or problems."""

    count: int = setting(1, "processes", POSITIVE)
    index: int = setting(0, "which of them this one is, from 0", NOT_NEGATIVE)
    coordinator: str = setting("", "host:port at which process 0 waits for the others")
    wait_s: float = setting(300.0, "how long to wait for the others at the start, s", POSITIVE)


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """What `--dry_run` plans for; real runs never read it."""

    target: str = setting(
        "h100",
        "accelerator whose facts, and compiler where it is installed, a dry run uses",
        one_of("h100", "h200", "b200", "tpu-v5e", "tpu-v5p", "tpu-v6e"),
    )
    length_share: float = setting(1.0, "typical sequence, as a share of the longest allowed", SHARE)


@dataclasses.dataclass(frozen=True)
class SftSettings:
    """The recipe of supervised fine-tuning."""

    init_from: str = setting("", "weights to start from: Hugging Face directory, GGUF file, gguf:PACKAGE; empty: none")
    steps: int = setting(400, "optimizer steps", POSITIVE)
    batch: int = setting(32, "programs of one step", POSITIVE)
    batch_tokens: int = setting(
        0, "tokens of one step, examples being taken while they fit; 0: `batch` examples, however long", NOT_NEGATIVE
    )
    mix: tuple[tuple[str, float], ...] = setting(
        (), "(JSONL or Parquet file of `messages`, weight) of each source; empty: the programs of the dataset"
    )
    tokenizer: str = setting("", "directory of the tokenizer files of a model; empty: one is trained here")
    learning_rate: float = setting(2e-3, "peak of the schedule", POSITIVE)
    warmup_steps: int = setting(50, "linear warm-up, steps", NOT_NEGATIVE)
    weight_decay: float = setting(0.05, "decoupled weight decay", NOT_NEGATIVE)
    max_grad_norm: float = setting(1.0, "global clipping norm", POSITIVE)
    checkpoint_every: int = setting(100, "steps between checkpoints", POSITIVE)
    most_skipped: int = setting(10, "updates in a row without a finite gradient before the run stops", POSITIVE)


@dataclasses.dataclass(frozen=True)
class EnvironmentSettings:
    """Names of `optimrl_jax.environment.families` and the numbers that the family uses (others are ignored there)."""

    family: str = setting("qp_ranked", "row of Table 38")
    filter_limit: float = setting(2.0, "a in s, L in characters or r in percent, by family", NOT_NEGATIVE)
    aggregate: str = setting("mean", "A of the duration filters", one_of("mean", "median"))
    limit: float = setting(10.0, "l in s or p_lambda in percent, by family", POSITIVE)
    bound: str = setting("max", "B of ranked timeouts", one_of("max", "median"))
    tolerance: float = setting(1.0, "rho, tolerated share of timeouts", SHARE)
    threshold: float = setting(0.3, "p of the ranked gate, share of the leaderboard", SHARE)
    ties: str = setting("first", "percentile of tied participants", one_of("first", "average"))
    alpha: float = setting(1.0, "slope of the affine calibration Gamma", POSITIVE)
    beta_s: float = setting(0.0, "offset of the affine calibration Gamma, s")
    noise_draws: int = setting(
        0, "draws of the stored timing errors to average outcomes over; 0: seconds at face value", NOT_NEGATIVE
    )


@dataclasses.dataclass(frozen=True)
class RewardSettings:
    """How an outcome becomes a reward."""

    composition: str = setting(
        "two_gate_binary",
        "name in `rewards.COMPOSITIONS` or NAIVE_COMPOSITIONS, or FILE.py:FUNCTION of an `arrays.Outcome`",
    )
    quality_map: str = setting(
        "linear", "name in `rewards.QUALITY_MAPS`, or FILE.py:FUNCTION of q, giving a credit in [0, 1]"
    )
    blend_weight: float = setting(0.5, "lambda, weight of correctness in blends", SHARE)


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """Another state of the timing service, injected into training on purpose (App. C.12)."""

    service: str = setting("healthy", "name in `optimrl_jax.environment.SERVICE_STATES`; healthy: seconds as measured")
    burst_share: float = setting(1.0, "share of windows in which the service is in that state", SHARE)
    burst_batches: int = setting(1, "batches of rollouts in one window", POSITIVE)


@dataclasses.dataclass(frozen=True)
class SandboxSettings:
    """Where programs run, how their runs are timed, and what happens where a service gives up on one."""

    address: str = setting(
        "local",
        "who runs programs: docker, http(s)://host:port of services, separated by commas, or local: without isolation",
    )
    workers: int = setting(2, "programs timed at the same time by the local backend", POSITIVE)
    limit_s: float = setting(10.0, "cap of one run, s", POSITIVE)
    repeats: int = setting(1, "most timed executions of a test, on average over those of a program", POSITIVE)
    precision: float = setting(
        0.02,
        "a repeated test whose two fastest runs agree within this share needs no more",
        POSITIVE_SHARE,
    )
    decision_percent: float = setting(
        0.0,
        "percentile of a test's references near which it is measured twice as precisely; 0: none",
        PERCENT,
    )
    reuse: str = setting("always", "execute equal programs of one pass once, or each", one_of("always", "never"))
    store: str = setting("", "file of executions that answer equal ones of later passes, seconds included; empty: none")
    duration: str = setting("wall", "clock that feeds rewards", one_of("wall", "cpu"))
    fallback_correctness: str = setting(
        "discard",
        "worth of this machine's verdict where no service settled a correctness test: none, itself, success a timeout",
        one_of("discard", "keep", "timeout"),
    )
    fallback_optimization: str = setting(
        "discard", "the same for optimization tests, whose seconds nobody has then", one_of("discard", "timeout")
    )
    fallback_backend: str = setting("local", "what runs programs on this machine then", one_of("local", "docker"))
    fallback_retries: int = setting(
        1, "immediate retries at a service before that", (lambda value: 0 <= value <= 10, "a whole number in [0, 10]")
    )
    quarantine: str = setting(
        "mark", "seconds of a degraded service: kept, or masked as faults", one_of("mark", "discard")
    )
    calibration: str = setting(
        "fixed",
        "stored seconds as environment.alpha and beta_s say, or also as the service's probes say it has drifted",
        one_of("fixed", "follow"),
    )


@dataclasses.dataclass(frozen=True)
class GrpoSettings:
    """The recipe of GRPO: sec. 5, "Can GRPO be stable ...?", and App. F."""

    init_from: str = setting("", "workdir of the SFT job to start from, or weights as in sft.init_from")
    sampler: str = setting(
        "", "http(s)://host:port/v1 of an engine that samples the rollouts (see engine); empty: the actors do"
    )
    steps: int = setting(80, "optimizer steps", POSITIVE)
    problems: int = setting(6, "prompts of one step", POSITIVE)
    rollouts: int = setting(16, "G, rollouts of one prompt", (lambda v: v >= 2, "at least 2"))
    temperature: float = setting(1.0, "sampling temperature", POSITIVE)
    learning_rate: float = setting(3e-4, "peak of the schedule", POSITIVE)
    warmup_steps: int = setting(5, "linear warm-up, steps", NOT_NEGATIVE)
    weight_decay: float = setting(0.0, "decoupled weight decay", NOT_NEGATIVE)
    max_grad_norm: float = setting(1.0, "global clipping norm", POSITIVE)
    epsilon_low: float = setting(0.2, "lower clip of the ratio", OPEN_SHARE)
    epsilon_high: float = setting(0.25, "upper clip of the ratio", NOT_NEGATIVE)
    horizon: int = setting(32_768, "N, fixed token horizon of the loss", POSITIVE)
    max_staleness: int = setting(30, "S_max, optimizer steps", NOT_NEGATIVE)
    broadcast_every: int = setting(1, "K, steps between weight broadcasts to the actor", POSITIVE)
    ahead: int = setting(0, "batches the actor works ahead of the learner", NOT_NEGATIVE)
    most_skipped: int = setting(10, "updates in a row without a finite gradient before the run stops", POSITIVE)
    checkpoint_every: int = setting(10, "steps between checkpoints", POSITIVE)
    keeps_rollouts: bool = setting(True, "every rollout with its verdicts is written to Parquet in the workdir")


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """How the engine of `grpo.sampler` is used: a server of the OpenAI protocol, such as our own, vLLM or SGLang."""

    model: str = setting("policy", "model name that requests give")
    push: str = setting(
        "optimrl_jax.rollout.engine_client:push_weights",
        "module:function that gives the engine new weights (url, network, params, version); empty: it keeps its own",
    )
    requests: int = setting(16, "prompts asked for at the same time", POSITIVE)
    timeout_s: float = setting(600.0, "longest wait for the completions of a prompt, s", POSITIVE)
    importance_cap: float = setting(
        2.0, "most that a token counts for being likelier here than in the engine, as a ratio", POSITIVE
    )


@dataclasses.dataclass(frozen=True)
class ActorSettings:
    """Who samples and judges while the learner learns, where, and how learner and actors reach each other."""

    count: int = setting(0, "actors of all processes; 0: one that takes turns with the learner", NOT_NEGATIVE)
    live_in: str = setting(
        "threads", "where the actors live: here, or started by the user", one_of("threads", "processes", "elsewhere")
    )
    device_share: float = setting(
        0.5, "share of two or more devices that is the actors' alone (threads); 0: shared with the learner", OPEN_SHARE
    )
    item_problems: int = setting(
        0, "problems of one work item; 0: grpo.problems / actors.count, rounded up", NOT_NEGATIVE
    )
    listen: str = setting("", "tcp://host:port for actors of other processes; empty: a free port of the loopback")
    heartbeat_s: float = setting(10.0, "s between signs of life; an actor that misses three is replaced", POSITIVE)
    patience_s: float = setting(600.0, "longest wait for any rollout, or for a lost learner, s", POSITIVE)


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Which checkpoints of a job stay on disk."""

    keep: int = setting(2, "newest checkpoints that stay; 0: all", NOT_NEGATIVE)
    keep_every: int = setting(0, "checkpoints of multiples of so many steps stay as well; 0: none", NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Which policies are compared, on which problems, and by which figures."""

    policies: tuple[tuple[str, str], ...] = setting(
        (),
        "(name, policy) of each to compare: workdir, workdir@step, published weights, http://host:port/v1#model; "
        "empty: that of the workdir and the one it started from",
    )
    samples: int = setting(20, "n, programs sampled a problem", POSITIVE)
    ks: tuple[int, ...] = setting(
        (1, 10), "k of pass@k", (lambda value: all(k >= 1 for k in value), "whole numbers from 1 to evaluation.samples")
    )
    taus: tuple[int, ...] = setting(
        (100, 50, 30, 10),
        "percentiles of p_tau",
        (lambda value: all(0 < tau <= 100 for tau in value), "percentiles in (0, 100]"),
    )
    resamples: int = setting(2000, "bootstrap resamples over problems", POSITIVE)
    problems: int = setting(0, "held-out problems to use; 0: all", NOT_NEGATIVE)
    benchmark: str = setting("", "JSON Lines of problems with tests alone, instead of the held-out split")
    leaderboard: str = setting(
        "fresh",
        "reference durations to rank against: as stored, mapped to today, or of the same timing pass",
        one_of("stored", "affine", "fresh"),
    )


@dataclasses.dataclass(frozen=True)
class ServeSettings:
    """A policy behind an OpenAI-compatible endpoint."""

    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8080, "port to listen on; 0: any free one", NOT_NEGATIVE)
    name: str = setting("policy", "model name that requests give")
    rows: int = setting(8, "completions sampled together", POSITIVE)
    key: str = setting("", "key that requests have to carry (Authorization: Bearer KEY); empty: none")
    accepts_weights: bool = setting(False, "whoever may ask may also replace the weights (POST /v1/policy?version=N)")
    weights: str = setting("", "published weights to serve, as in grpo.init_from; empty: those of the workdir")


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a job, by section."""

    seed: int = setting(0, "the one seed; every stream is folded from it", NOT_NEGATIVE)
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
    actors: ActorSettings = section(ActorSettings)
    engine: EngineSettings = section(EngineSettings)
    checkpoints: CheckpointSettings = section(CheckpointSettings)
    evaluation: EvaluationSettings = section(EvaluationSettings)
    serve: ServeSettings = section(ServeSettings)

    @property
    def network(self) -> Network:
        """The decoder of `model`, computed as `compute` says."""
        return Network.of(self.model, self.compute)
