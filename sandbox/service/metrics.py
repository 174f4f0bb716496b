"""Edge: a pool's counts and probes as Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from sandbox.service import pool, probes

COUNTERS = {
    "requests": "Requests answered.",
    "runs": "Executions of programs.",
    "unsettled": "Requests that the sandbox could not settle.",
    "refused": "Requests refused because the queue was full.",
    "cancelled": "Requests dropped because nobody waited for them any more.",
    "moved": "Requests that went to another worker because they met a slow core.",
    "lost_workers": "Workers lost in the middle of a request.",
    "recycled_workers": "Workers replaced after their number of runs.",
    "quarantined_workers": "Times a worker was set aside.",
}


class _PoolCollector:
    def __init__(self, workers: pool.Pool, sentinel: probes.Sentinel) -> None:
        self._workers = workers
        self._sentinel = sentinel

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics as they stand now."""
        counts, windows, watch = self._workers.counts, self._workers.windows, self._sentinel.watch
        degraded_by = self._sentinel.degraded_by
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"sandbox_{name}", text, value=counts[name])
        for name, value, text in (
            ("windows", windows.closed, f"Windows of {windows.size} requests."),
            ("burst_windows", windows.bursts, "Windows in which too many requests were not settled."),
            ("probes", self._sentinel.probes, "Live probes that succeeded."),
            ("degraded_probes", self._sentinel.degraded_probes, "Probes whose seconds had left the band."),
        ):
            yield CounterMetricFamily(f"sandbox_{name}", text, value=value)
        yield GaugeMetricFamily("sandbox_queued", "Requests that wait or run.", value=counts["queued"])
        degraded = GaugeMetricFamily("sandbox_degraded", "1 while seconds are doubtful for that reason.", labels=["by"])
        for name in ("burst", "drift"):
            degraded.add_metric([name], name in degraded_by)
        yield degraded
        yield GaugeMetricFamily(
            "sandbox_calibration_alarm", "1 from a new map on until it is accepted.", value=not watch.is_accepted
        )
        for state, found in (("current", watch.current), ("newest", watch.newest)):
            if found is not None:
                yield GaugeMetricFamily(f"sandbox_{state}_slope", "Seconds now over then.", value=found.slope)
                yield GaugeMetricFamily(f"sandbox_{state}_offset_seconds", "Now minus that.", value=found.offset_s)


def registry(workers: pool.Pool, sentinel: probes.Sentinel) -> CollectorRegistry:
    """Make a registry whose metrics are read from a pool and its probes at each scrape.

    It is not the global one of the library, so that several services in one process do not mix.
    """
    found = CollectorRegistry()
    found.register(_PoolCollector(workers, sentinel))
    return found
