"""The schedule of a simulated run: which reference solutions are sampled at each step, from weak ones to strong ones.

Third stage of the simulator. A step's quality target is its normalized position x in [0, 1]; its samples come from the
band around the target, as a policy that trains would write better and better programs (App. E.1).
"""

import numpy as np

from optimrl_jax.simulator.sweep import Passes


def step_positions(steps: int) -> np.ndarray:
    """Normalize the positions x_i of the steps: 0 at the first, 1 at the last; [0] for a single step."""
    return np.linspace(0.0, 1.0, steps)


def sample_schedule(found: Passes, *, steps: int, problems: int, samples: int, band: float, seed: int) -> np.ndarray:
    """Sample reference solutions for each step, from weak ones to strong ones.

    Each step draws problems without replacement (with, where there are fewer) and, in each, candidates: a quality drawn
    uniformly within `band` of the target, clipped to [0, 1], then the candidate at that place of the problem's order of
    quality. The same seed gives the same rows, so that configurations are compared on equal samples.

    Args:
      found: the sweep.
      steps: of the simulated run.
      problems: drawn at each step.
      samples: candidates of each problem.
      band: half width around the target, share of the leaderboard.
      seed: of everything drawn.

    Returns:
      Rows of `found`, int`[steps, problems * samples]`.

    Raises:
      ValueError: where no problem has a candidate.
    """
    rows = np.flatnonzero(found.is_candidate)
    if rows.size == 0:
        raise ValueError("problems: expected at least one reference with a usable optimization test")
    order = rows[np.lexsort((found.quality[rows], found.problem[rows]))]
    _, start, count = np.unique(found.problem[order], return_index=True, return_counts=True)
    draw = np.random.default_rng(seed)
    too_few = start.size < problems
    chosen = np.stack([draw.choice(start.size, problems, replace=too_few) for _ in range(steps)])[..., None]
    target = step_positions(steps)[:, None, None] + draw.uniform(-band, band, (steps, problems, samples))
    place = np.rint(np.clip(target, 0, 1) * (count[chosen] - 1)).astype(int)
    return order[start[chosen] + place].reshape(steps, problems * samples)


def pass_curves(found: Passes, rows: np.ndarray) -> np.ndarray:
    """Measure the share of each step's samples that pass: c_i of each configuration.

    Args:
      found: the sweep.
      rows: int`[steps, samples]` rows of it (`sample_schedule`).

    Returns:
      float`[configurations, steps]` in [0, 1].
    """
    return np.stack([found.passes(of_step).mean(axis=0) for of_step in rows], axis=1)
