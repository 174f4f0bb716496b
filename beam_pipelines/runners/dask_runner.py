"""Edge: Beam's Dask runner with side outputs: a cluster without a cloud.

Beam's own translation hands all outputs of a step to every consumer, tagged ones included, and computes the last step
only. Here a consumer gets the elements of the output that it asked for, and every sink is computed.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from apache_beam import DoFn, ParDo, TaggedOutput, pvalue
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, Pipeline, PipelineVisitor
from apache_beam.runners.common import DoFnContext, DoFnInvoker, DoFnSignature, Receiver, _OutputHandler
from apache_beam.runners.dask import dask_runner
from apache_beam.runners.dask.overrides import dask_overrides
from apache_beam.runners.dask.transform_evaluator import TRANSLATIONS, Flatten, NoOp
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue


class DaskRunner(dask_runner.DaskRunner):
    """Runs a pipeline on the Dask cluster that the options name (`--dask_client_address`), or on a local one."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> dask_runner.DaskRunnerResult:
        """Translate the pipeline into Dask bags and start computing all its sinks."""
        from dask import config

        config.set({"logging.distributed": "warning"})
        logging.getLogger("distributed").setLevel(logging.WARNING)
        from dask import distributed

        dask_options = options.view_as(dask_runner.DaskOptions).get_all_options(drop_default=True, current_only=True)
        bag_arguments = dask_runner.DaskOptions._extract_bag_kwargs(dask_options)
        # An element of a source is a block of problems: enough for a partition of its own.
        if not bag_arguments:
            bag_arguments = {"partition_size": 1}
        pipeline.replace_all(dask_overrides())
        visitor = _Translation(bag_arguments)
        pipeline.visit(visitor)
        client = distributed.Client(**dask_options)
        sinks = [bag for step, bag in visitor.bags.items() if step not in visitor.consumed]
        # Optimized one by one, sinks would each carry, and execute, a copy of the steps that they share.
        return ClosingResult(client, list(client.compute(sinks, optimize_graph=False)))


class ClosingResult(dask_runner.DaskRunnerResult):
    """A result that leaves the cluster's client once everything is done, so that a local cluster ends with it."""

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait for the end, for `duration` at most if given, and leave the cluster."""
        try:
            return super().wait_until_finish(duration)
        finally:
            self.client.close()


class _Translation(PipelineVisitor):
    """Turns steps into Dask bags, one after the other; `consumed` are those whose output another step reads."""

    def __init__(self, bag_arguments: Mapping[str, object]) -> None:
        self.bags: dict[AppliedPTransform, Any] = {}
        self.consumed: set[AppliedPTransform] = set()
        self._bag_arguments = bag_arguments

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Translate one step; its inputs have been visited before."""
        inputs = [self._input(value) for value in transform_node.inputs]
        first: Any = next(iter(inputs), None)
        if isinstance(transform_node.transform, ParDo):
            self.bags[transform_node] = first.map_partitions(_bundle, transform_node.transform)
            return
        known: Mapping[type, Any] = TRANSLATIONS
        kind = known.get(type(transform_node.transform), NoOp)
        operation = kind(transform_node, bag_kwargs=self._bag_arguments)
        self.bags[transform_node] = operation.apply(input_bag=inputs if isinstance(operation, Flatten) else first)

    def _input(self, value: pvalue.PValue) -> Any:
        if isinstance(value, pvalue.PBegin):
            return None
        self.consumed.add(value.producer)
        bag = self.bags[value.producer]
        has_several = len(value.producer.outputs) > 1
        return bag.map_partitions(_of_output, value.tag) if has_several else bag


def _of_output(items: Iterable[object], tag: str | None) -> list[object]:
    """Select the elements of one output of a step, without their tag; those of the main output have none."""
    return [_untagged(item) for item in items if (item.tag if isinstance(item, TaggedOutput) else None) == tag]


def _untagged(item: object) -> object:
    return item.value if isinstance(item, TaggedOutput) else item


def _bundle(items: Iterable[object], step: ParDo) -> list[object]:
    """Apply a step to one partition; elements of the main output come out as they are, others in a TaggedOutput."""
    received = _Received()
    arguments, keywords = step.raw_side_inputs
    invoker = DoFnInvoker.create_invoker(
        DoFnSignature(step.fn),
        _OutputHandler(GlobalWindows(), received[None], received, None, None, False, False),
        context=DoFnContext(step.label, state=None),
        side_inputs=None,
        input_args=list(arguments),
        input_kwargs=keywords,
        user_state_context=None,
        bundle_finalizer_param=DoFn.BundleFinalizerParam(),
    )
    invoker.invoke_setup()
    invoker.invoke_start_bundle()
    for item in items:
        invoker.invoke_process(GlobalWindows.windowed_value(item))
    invoker.invoke_finish_bundle()
    invoker.invoke_teardown()
    return received.elements


class _Received(dict):
    """Collects what a DoFn emits; indexed by tag as Beam's output handler expects."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[object] = []

    def __missing__(self, tag: str | None) -> "_Output":
        self[tag] = _Output(tag, self.elements)
        return self[tag]


class _Output(Receiver):
    def __init__(self, tag: str | None, elements: list[object]) -> None:
        self._tag = tag
        self._elements = elements

    def receive(self, windowed_value: WindowedValue) -> None:
        value = windowed_value.value
        self._elements.append(value if self._tag is None else TaggedOutput(self._tag, value))
