"""`sigmascope balances`."""

from pathlib import Path

from sigmascope.cli.options import DEFAULT, Index, Source, open_named, task
from sigmascope.cli.outputs import draw, finish, require_targets


def balances(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    tree: Path | None = None,
    output: Index = 0,
    whole: bool = False,
    json: str | None = None,
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """List what training conserves in a model, what it does not, and why.

    Neuron by neuron, pair by pair, head by head and layer by layer, each with its formula, the
    reason and the rate of change that was measured.

    Examples:
        # what training of your network conserves, all of it
        sigmascope balances net.py:build --data set.npz --whole

        # the paths of a network of a few units, as a picture
        sigmascope balances net.py:tiny --data set.npz --tree paths.svg

    Args:
        model: What to examine; as for `profile`.
        source: The data and weights.
        tree: Draw one output of a tiny network of dense layers as the tree of its paths (SVG).
        output: Which output to draw.
        whole: List everything.
        json: Write the list here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if a balance is broken by a wrong backward pass.
    """
    from sigmascope.theory import le2022, neuron_graph

    require_targets(picture=tree, json=json, plot=plot, inputs=source.files)
    opened, data = open_named(model, source)
    dag = None
    if tree is not None:
        from torch import Tensor

        from sigmascope.core import guard

        if not isinstance(data.inputs, Tensor) or data.inputs.ndim != 2:
            raise guard.Refusal(
                "`--tree` needs a model that reads one vector a sample. Draw a network of dense "
                "layers."
            )
        dag = neuron_graph.dag_of(opened.module, inputs=data.inputs.shape[1], output=output)
    found = le2022.conservation.conserved(opened.module, data.inputs, **task(data, source))
    failed = strict and bool(found.broken)
    code = finish(found, json=json, plot=plot, failed=failed, printed={"whole": whole})
    if tree is not None and dag is not None:
        from sigmascope.theory import presentation

        weights = dag.weights(dict(opened.module.named_parameters()))
        network = neuron_graph.tree_network(neuron_graph.unroll(dag), weights)
        features = tuple(f"x{i}" for i in range(len(dag.inputs) - dag.constant))
        draw(tree, presentation.tree_picture(network, names=(*features, "1")))
    return code
