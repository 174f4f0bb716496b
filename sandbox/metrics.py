"""Edge: a pool's counts and probes as Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from sandbox import pool, probes

COUNTERS = {
    "requests": "Requests answered.",
    "runs": "Executions of programs.",
    "faults": "Requests that the sandbox could not settle.",
    "refused": "Requests refused because the queue was full.",
    "lost_workers": "Workers lost in the middle of a request.",
    "recycled_workers": "Workers replaced after their number of runs.",
    "quarantined_workers": "Times a worker was set aside.",
}


class _PoolCollector:
    def __init__(self, workers: pool.Pool, sentinel: probes.Sentinel) -> None:
        self._workers = workers
        self._sentinel = sentinel

    def collect(self) -> Iterable[Metric]:
        counts = self._workers.counts
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"sandbox_{name}", text, value=counts[name])
        yield GaugeMetricFamily("sandbox_queued", "Requests that wait or run.", value=counts["queued"])
        drift = self._sentinel.drift()
        if drift is not None:
            yield GaugeMetricFamily("sandbox_drift_slope", "Probe seconds now over then.", value=drift.slope)
            yield GaugeMetricFamily("sandbox_drift_alarm", "1 where the slope left its band.", value=drift.is_alarming)


def registry(workers: pool.Pool, sentinel: probes.Sentinel) -> CollectorRegistry:
    """A registry of its own, so that several services in one process do not mix."""
    found = CollectorRegistry()
    found.register(_PoolCollector(workers, sentinel))
    return found
