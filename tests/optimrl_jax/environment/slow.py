"""The environments again, slowly: one candidate at a time, with exact fractions and the paper's own sentences."""

import math
from fractions import Fraction

import numpy as np

SUCCESS, TIMEOUT, FAILURE, FAULT, NOT_RUN = range(5)
ORIGINAL, ADDED, OPTIMIZATION = range(3)


def calibrate(duration, alpha, beta):
    sanitized = duration if duration > 0 else 10.0
    return min(10.0, max(0.0, alpha * sanitized + beta))


def aggregate(durations, how):
    return float(np.mean(durations)) if how == "mean" else float(np.median(durations))


def used_tests(env, filter_name, optimization, pools, characters):
    if filter_name == "none":
        return list(optimization)
    if filter_name == "absolute":
        return [t for t in optimization if pools[t] and aggregate(pools[t], env.aggregate) < env.filter_limit]
    if filter_name == "length":
        return [t for t in optimization if characters[t] < env.filter_limit]
    rankable = [t for t in optimization if pools[t]]
    slowest = sorted(rankable, key=lambda t: (aggregate(pools[t], env.aggregate), t), reverse=True)
    dropped = slowest[: math.floor(env.filter_limit * len(rankable) / 100)]
    return [t for t in optimization if t not in dropped]


def limits(env, limit_name, used, durations):
    """Limit of each used test; tests that nothing can be derived for are left out."""
    if limit_name == "none":
        return dict.fromkeys(used, math.inf)
    if limit_name == "absolute":
        return dict.fromkeys(used, env.limit)
    if limit_name == "relative":
        pools = {t: list(durations[t].values()) for t in used if durations[t]}
        return {t: max(1e-3, float(np.percentile(pool, env.limit))) for t, pool in pools.items()}
    members = {h for t in used for h in durations[t]}
    mean_rank = {}
    for h in members:
        ranks = [sum(d < durations[t][h] for d in durations[t].values()) for t in used if h in durations[t]]
        mean_rank[h] = Fraction(sum(ranks), len(ranks))
    best = sorted(members, key=lambda h: (mean_rank[h], h))
    chosen = best[: max(1, math.ceil(env.limit * len(members) / 100 - 1e-9))]
    found = {}
    for t in used:
        pool = [durations[t][h] for h in chosen if h in durations[t]]
        if pool:
            found[t] = max(pool) if env.bound == "max" else float(np.median(pool))
    return found


def percentile_of(value, others, ties):
    """Place of `value` among `others` in [0, 1]."""
    faster = sum(d < value for d in others)
    tied = sum(d == value for d in others)
    return Fraction(2 * faster + (tied if ties == "average" else 0), 2 * len(others))


def rank(env, ranking, used, durations, candidate):
    ranked = [t for t in used if durations[t]]
    if not ranked:
        return None
    places = [percentile_of(candidate[t], list(durations[t].values()), env.ties) for t in ranked]
    a = sum(places) / len(places)
    if ranking == "qar":
        return float(a)
    ahead, members = 0, {h for t in ranked for h in durations[t]}
    for h in members:
        own = []
        for t in ranked:
            if h in durations[t]:
                others = [d for other, d in durations[t].items() if other != h] + [candidate[t]]
                own.append(percentile_of(durations[t][h], others, env.ties))
        ahead += sum(own) / len(own) < a
    return ahead / max(1, len(members))


def judge(env, family, kind, characters, duration_s, is_usable, status, candidate_s):
    """(c, c_strict, g, q, is_valid) of one candidate on one unpadded problem."""
    tests = range(len(kind))
    optimization = [t for t in tests if kind[t] == OPTIMIZATION] if family.uses_optimization else []
    correctness = [t for t in tests if kind[t] in family.correctness]
    durations = [
        {h: calibrate(d, env.alpha, env.beta_s) for h, d in enumerate(row) if is_usable[t][h]}
        for t, row in enumerate(duration_s)
    ]
    pools = [list(row.values()) for row in durations]
    used = used_tests(env, family.filter, optimization, pools, characters)
    limit = limits(env, family.limit, used, durations)
    used = [t for t in used if t in limit]
    state = list(status)
    for t in used:
        if state[t] == SUCCESS and candidate_s[t] >= limit[t]:
            state[t] = TIMEOUT
    c = all(state[t] == SUCCESS for t in correctness)
    strict = c and all(state[t] in (SUCCESS, TIMEOUT) for t in used)
    phi = sum(int(state[t]) == TIMEOUT for t in used) / max(1, len(used))
    is_valid = not any(state[t] == FAULT for t in [*correctness, *used])
    if family.ranking == "none":
        return c, strict, phi <= env.tolerance + 1e-9, phi, is_valid
    seconds = {t: min(10.0, candidate_s[t]) if state[t] in (SUCCESS, FAILURE) else 10.0 for t in used}
    q = rank(env, family.ranking, used, durations, seconds)
    return (c, strict, True, 0.0, is_valid) if q is None else (c, strict, q <= env.threshold + 1e-9, q, is_valid)
