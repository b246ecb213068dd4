"""The graphs of operators between the functions of a graph, each one a DML_GRAPH_DESC."""

from collections.abc import Iterator, Mapping

from dml_jax.graph.builder import Expression, GraphBuilder
from dml_jax.graph.graph import Graph
from dml_jax.graph.parts import ConstantNode, FunctionNode, Source


def cut(graph: Graph) -> list[Graph]:
    """Return the graphs of operators between functions, in the order in which they run.

    A graph takes what earlier graphs and functions give as further inputs, which are named by node
    and output. The graphs within a function follow the graph before it.
    """
    stages = _stages(graph)
    names: dict[Source, str] = {}
    for index, read in enumerate(graph.reads):
        for source in read.values():
            ends = [graph.nodes[k] for k in (index, source[0]) if k >= 0]
            is_between = any(isinstance(node, FunctionNode) for node in ends)
            is_computed = not any(isinstance(node, ConstantNode) for node in ends)
            if is_computed and (is_between or stages[source[0]] < stages[index]):
                names[source] = "node {} output {}".format(*source)
    parts: list[Graph] = []
    for stage in range(max(stages.values()) + 1):
        parts += _part(graph, stages, stage, names)
        for index, node in enumerate(graph.nodes):
            if isinstance(node, FunctionNode) and stages[index] == stage + 1:
                parts += [part for inner in node.graphs for part in cut(inner)]
    return parts


def _stages(graph: Graph) -> dict[int, int]:
    """Return how many functions lie before each node one after the other, itself included."""
    stages = {-1: 0}
    for index, node, sources in graph.plan:
        before = max((stages[source] for source, _ in sources), default=0)
        stages[index] = before + isinstance(node, FunctionNode)
    return stages


def _part(
    graph: Graph, stages: Mapping[int, int], stage: int, names: Mapping[Source, str]
) -> Iterator[Graph]:
    """Yield the graph of the operators of a stage, if there are any.

    `names` has the names of the arrays that one part gives to another, by their sources.
    """
    builder, made = GraphBuilder(), dict[Source, Source]()

    def copied(source: Source) -> Source:
        node, index = source
        if source not in made and node < 0:
            name = (graph.input_names or ())[index]
            made[source] = builder.input_tensor(name, graph.inputs[index]).source
        elif source not in made and isinstance(graph.nodes[node], ConstantNode):
            made[source] = builder.add(graph.nodes[node], {})[0].source
        elif source not in made:
            _, tensor = graph.nodes[node].slots(output=True)[index]
            made[source] = builder.input_tensor(names[source], tensor).source
        return made[source]

    outputs, output_names = dict[str, Expression](), graph.output_names or ()
    for index, node, _ in graph.plan:
        if stages[index] != stage or isinstance(node, FunctionNode):
            continue
        is_constant = isinstance(node, ConstantNode)
        if is_constant and (index, 0) not in graph.ends.values():
            continue  # its readers copy it
        reads = {slot: copied(source) for slot, source in graph.reads[index].items()}
        for expression in builder.add(node, reads):
            source = index, expression.source[1]
            made[source] = expression.source
            if source in names:
                outputs[names[source]] = expression
            for end in (end for end, other in graph.ends.items() if other == source):
                outputs[output_names[end]] = Expression(
                    graph.outputs[end], builder, expression.source
                )
    if outputs:
        yield builder.build(outputs, only_read=True)
