"""Figures of the noise study (Figures 10 to 12): accuracy over thresholds, number of tests, size of the noise."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from optimrl_jax.evaluation import style
from optimrl_jax.simulator import noise

# Noise of the threshold and test-number figures: 10 % of the duration, or 100 ms, the paper's order of magnitude.
KINDS = {"multiplicative": noise.Noise(multiplicative=0.1), "additive": noise.Noise(additive_s=0.1)}
THRESHOLDS_S = {"lcb": np.geomspace(0.05, 2, 40), "dmc": np.geomspace(2, 40, 40)}
COUNTS = (1, 2, 5, 10, 20, 35, 60, 90, 122)
MAGNITUDES = {
    "multiplicative": [noise.Noise(multiplicative=size) for size in np.linspace(0, 0.5, 11)],
    "additive": [noise.Noise(additive_s=size) for size in np.linspace(0, 0.5, 11)],
}


def threshold_figure(*, trials: int, seed: int) -> Figure:
    """Draw accuracy over thresholds: timeouts inform in a narrow band, the win rate has nothing to tune (Figure 10)."""

    def sweep(regime: str, kind: str) -> tuple[np.ndarray, noise.Accuracy]:
        thresholds_s = THRESHOLDS_S[regime]
        found = noise.threshold_sweep(noise.REGIMES[regime], KINDS[kind], thresholds_s, trials=trials, seed=seed)
        return thresholds_s, found

    return _grid(sweep, label="timeout threshold, s", is_logarithmic=True)


def tests_figure(*, trials: int, seed: int) -> Figure:
    """Draw accuracy over the number of tests: more tests help both metrics, the win rate more (Figure 11)."""

    def sweep(regime: str, kind: str) -> tuple[np.ndarray, noise.Accuracy]:
        return np.array(COUNTS), noise.tests_sweep(noise.REGIMES[regime], KINDS[kind], COUNTS, trials=trials, seed=seed)

    return _grid(sweep, label="tests of a problem", is_logarithmic=False)


def magnitude_figure(*, trials: int, seed: int) -> Figure:
    """Draw accuracy over the size of the noise: additive noise drowns short tests and spares long ones (Figure 12)."""

    def sweep(regime: str, kind: str) -> tuple[np.ndarray, noise.Accuracy]:
        sizes = np.array([sum(one) for one in MAGNITUDES[kind]])
        return sizes, noise.noise_sweep(noise.REGIMES[regime], MAGNITUDES[kind], trials=trials, seed=seed)

    return _grid(sweep, label="standard deviation of the noise (share of the duration, or s)", is_logarithmic=False)


def _grid(sweep, *, label: str, is_logarithmic: bool) -> Figure:
    figure = Figure(figsize=(8, 5), layout="constrained")
    panels = figure.subplots(len(KINDS), len(noise.REGIMES), sharey=True)
    for row, kind in zip(panels, KINDS, strict=True):
        for axes, regime in zip(row, noise.REGIMES, strict=True):
            x, found = sweep(regime, kind)
            axes.plot(x, found.timeout, color=style.colour(5), label="timeout")
            axes.plot(x, found.win_rate, color=style.colour(0), label="win rate")
            axes.axhline(0.5, color="0.8", linewidth=0.8)
            axes.set_title(f"{noise.REGIMES[regime].name}, {kind} noise", fontsize=9)
            if is_logarithmic:
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
    panels[0, 0].legend(frameon=False)
    figure.supxlabel(label, fontsize=9)
    figure.supylabel("share of pairs whose winner is found", fontsize=9)
    return figure
