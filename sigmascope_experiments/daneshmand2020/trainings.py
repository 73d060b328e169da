"""Figures that train networks: 1, 4 to 7 and 10 to 13, at sizes for two cores and the paper's.

Each compares kinds of networks, every one at its best learning rate of a small grid.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from sigmascope_experiments.daneshmand2020.comparisons import (
    all_of,
    compared,
    figure,
    kinds,
    mean_of,
    net,
    plot_curves,
    plot_depths,
    sizes,
)
from sigmascope_experiments.figures import Claim, Config, Figure, Row

DEEP, SHALLOW = "mlp?depth=32&width=128", "mlp?depth=16&width=32"


TINY = sizes("digits", 320, 8, 32, 4, [0.1])
EPOCHS, RUNS = 75, 5  # of the paper
MLP_RATES, IMAGE_RATES = [0.003, 0.01, 0.03, 0.1], [0.01, 0.1]
SEARCHED = f"the rates that are searched, {MLP_RATES}, are chosen here"
UNSTATED = (
    f"Not stated, chosen here: {EPOCHS} epochs, as in Figure 1, batches of 128 and rates of "
    f"{IMAGE_RATES}."
)
VGG19 = "VGG19 in its form for 32 x 32 pixels (sixteen convolutions, one linear layer)"
RESNET50 = "ResNet-50 in its form for 32 x 32 pixels (bottlenecks of 3, 4, 6, 3; a 3 x 3 stem)"


def _deep(rows: list[Row]) -> list[str]:
    return [k for k in kinds(rows) if not k.endswith("BN") and int(k.split()[1]) >= 16]


def by_depth(depths: tuple[int, ...]) -> dict[str, Any]:
    """PyTorch's default network at some depths."""
    return {f"depth {d}": net(f"mlp?depth={d}&width=128") for d in depths}


def _normalised(depths: tuple[int, ...]) -> dict[str, Any]:
    return {f"depth {d}, BN": net(f"mlp?depth={d}&width=128&norm=batch") for d in depths}


def _depth_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    order = [("depth 1", "depth 16")]
    order += [("depth 32, BN", "depth 32")] * ("depth 32, BN" in kinds(rows))
    yield from compared(rows, config, order=order, stuck=_deep(rows), collapsed=_deep(rows))


DEPTHS = (1, 2, 4, 8, 16, 32)


def against(depths: tuple[int, ...], width: int) -> dict[str, Any]:
    """Pre-trained He networks against He networks with BatchNorm, at some depths."""
    found: dict[str, Any] = {}
    for d in depths:
        base = f"mlp?depth={d}&width={width}&init=he"
        found[f"depth {d}, pre-trained"] = net(base, "pretrain")
        found[f"depth {d}, BN"] = net(f"{base}&norm=batch")
    return found


def pairs(depths: tuple[int, ...]) -> list[tuple[str, str]]:
    """Pre-trained before BatchNorm, at the largest depth."""
    deepest = max(depths)
    return [(f"depth {deepest}, pre-trained", f"depth {deepest}, BN")]


FIG1 = figure(
    "fig1",
    "Rank at the start and accuracy after training by depth, Fashion-MNIST, MLPs of width 128 "
    "(2000 images and 15 epochs instead of all and 75).",
    8,
    {
        **sizes("fashion-mnist", 2000, 15, 128, 4, [0.01, 0.1]),
        "kinds": by_depth(DEPTHS),
    },
    {**TINY, "kinds": by_depth((1, 16))},
    _depth_claims,
    plot_depths,
    "Fashion-MNIST, MLPs of depth 1 to 32 and width 128 with and without BatchNorm, 75 epochs of "
    "SGD in batches of 128, 5 runs at a searched rate. Not stated: the depths between are powers "
    f"of 2, and {SEARCHED}.",
    {
        **all_of("fashion-mnist", EPOCHS, 128, RUNS, MLP_RATES),
        "kinds": by_depth(DEPTHS) | _normalised(DEPTHS),
    },
)


def _versus(name: str, data: str, word: str, right: str) -> Figure:
    depths = (8, 16, 32)
    return figure(
        name,
        f"Pre-training against BatchNorm, {word} of MLPs of depth 8 to 32 and width 128 on {data} "
        "(2000 images and 15 epochs).",
        20,
        {**sizes(data, 2000, 15, 64, 4, [0.01, 0.03, 0.1]), "kinds": against(depths, 128)},
        {**TINY, "kinds": against((8,), 32)},
        lambda rows, config: compared(
            rows,
            config,
            pretrained=[k for k in kinds(rows) if k.endswith("pre-trained")],
            order=pairs(depths),
        ),
        partial(plot_curves, right=right),
        f"{'CIFAR-10' if data == 'cifar10' else 'Fashion-MNIST'}, MLPs of growing depth with 128 "
        "hidden units, SGD in batches of 64 at a searched rate. Not stated, chosen here: depths 8, "
        f"16 and 32, {EPOCHS} epochs, as in Figure 1, {RUNS} runs; {SEARCHED}.",
        {**all_of(data, EPOCHS, 64, RUNS, MLP_RATES), "kinds": against(depths, 128)},
    )


FIG4 = _versus("fig4", "cifar10", "loss", "loss")
FIG11 = _versus("fig11", "cifar10", "accuracy and test accuracy", "test accuracy")
FIG12 = _versus("fig12", "fashion-mnist", "loss and accuracy", "loss")


# The paper finds no difference.
CENTRING = ("BN", "BN without centring")


def _broken(
    name: str,
    base: str,
    word: str,
    rates: list[float],
    minutes: float,
    papers: tuple[str, str],
) -> Figure:
    network, form = papers

    def broken(base: str, **more: Any) -> dict[str, Any]:
        return {
            "BN": net(f"{base}norm=batch&init=torch", **more),
            "BN without centring": net(f"{base}norm=batch-uncentred&init=torch", **more),
            "BN, asymmetric": net(f"{base}norm=batch&init=asymmetric", **more),
        }

    return figure(
        name,
        f"Breaking batch normalisation: {word} on CIFAR-10, symmetric and positive weights "
        "(1000 images and 5 epochs).",
        minutes,
        {
            **sizes("cifar10", 1000, 5, 32, 4, rates),
            "kinds": broken(f"{base}&"),
        },
        {
            **TINY,
            "kinds": {
                "BN": net("mlp?depth=12&width=32&norm=batch"),
                "BN, asymmetric": net("mlp?depth=12&width=32&norm=batch&init=asymmetric"),
            },
        },
        partial(compared, order=[("BN", "BN, asymmetric"), CENTRING], collapsed=["BN, asymmetric"]),
        partial(plot_curves, followed="matrix rank"),
        f"CIFAR-10, {form}, standard and positive initialisation, and no centring, {RUNS} runs. "
        f"{UNSTATED}",
        {
            **all_of("cifar10", EPOCHS, 128, RUNS, IMAGE_RATES),
            "kinds": broken(f"{network}?", follow=True),
        },
    )


FIG5 = _broken(
    "fig5", "vgg?depth=10&width=16", "a VGG of 10 layers", [0.01, 0.1], 16, ("vgg19", VGG19)
)
FIG13 = _broken(
    "fig13",
    "resnet?depth=14&width=8",
    "a ResNet of 14 layers",
    [0.01, 0.1],
    16,
    ("resnet50", RESNET50),
)

FIG6_KINDS = {
    "default": net(DEEP, follow=True),
    "pre-trained, 25 steps": net("mlp?depth=32&width=128&init=he", "pretrain-25", follow=True),
    "pre-trained, 75 steps": net("mlp?depth=32&width=128&init=he", "pretrain-75", follow=True),
    "BN": net(f"{DEEP}&norm=batch", follow=True),
    "BN, asymmetric": net(f"{DEEP}&norm=batch&init=asymmetric", follow=True),
}

FIG6 = figure(
    "fig6",
    "Accuracy and participation ratio (a lower bound on the rank) over training, Fashion-MNIST, "
    "MLPs of depth 32 and width 128 (2000 images and 15 epochs).",
    24,
    {
        **sizes("fashion-mnist", 2000, 15, 128, 4, [0.03, 0.1]),
        "kinds": FIG6_KINDS,
    },
    {
        **TINY,
        "kinds": {
            "default": net(SHALLOW, follow=True),
            "pre-trained, 25 steps": net(
                "mlp?depth=16&width=32&init=he", "pretrain-25", follow=True
            ),
        },
    },
    lambda rows, config: compared(
        rows,
        config,
        pretrained=[k for k in kinds(rows) if k.startswith("pre-trained")],
        order=[("pre-trained, 25 steps", "default"), ("BN", "default")],
        stuck=["default"],
        collapsed=["default"],
    ),
    partial(plot_curves, right="participation ratio"),
    "Fashion-MNIST, MLPs of depth 32 and width 128, pre-trained by 25 and 75 steps a layer, "
    f"{RUNS} runs. Not stated, chosen here: {EPOCHS} epochs and batches of 128, as in Figure 1; "
    f"{SEARCHED}.",
    {**all_of("fashion-mnist", EPOCHS, 128, RUNS, MLP_RATES), "kinds": FIG6_KINDS},
)

FIG7 = figure(
    "fig7",
    "Batch normalisation with and without centring, a VGG on CIFAR-10 (1000 images and 5 epochs).",
    10,
    {
        **sizes("cifar10", 1000, 5, 32, 4, [0.01, 0.1]),
        "kinds": {
            "BN": net("vgg?depth=8&width=16&norm=batch"),
            "BN without centring": net("vgg?depth=8&width=16&norm=batch-uncentred"),
            "none": net("vgg?depth=8&width=16&init=torch"),
        },
    },
    {
        **TINY,
        "kinds": {
            "BN": net("mlp?depth=6&width=32&norm=batch"),
            "BN without centring": net("mlp?depth=6&width=32&norm=batch-uncentred"),
            "none": net("mlp?depth=16&width=32"),
        },
    },
    partial(compared, order=[("BN without centring", "none"), CENTRING], collapsed=["none"]),
    partial(plot_curves, followed="participation ratio"),
    f"CIFAR-10, a VGG. Not stated, chosen here: {VGG19}, as in Figure 5, and {RUNS} runs. "
    f"{UNSTATED}",
    {
        **all_of("cifar10", EPOCHS, 128, RUNS, IMAGE_RATES),
        "kinds": {
            "BN": net("vgg19?norm=batch&init=torch", follow=True),
            "BN without centring": net("vgg19?norm=batch-uncentred&init=torch", follow=True),
            "none": net("vgg19?init=torch", follow=True),
        },
    },
)

FIG10 = figure(
    "fig10",
    "Directional gradient vanishing: |cos| between last-layer gradients over training, with and "
    "without batch normalisation, at 100 times the rate, and on random inputs (CIFAR-10, MLPs of "
    "depth 16; 1000 images and 8 epochs).",
    6,
    {
        **sizes("cifar10", 1000, 8, 64, 4, [0.01, 0.1]),
        "kinds": {
            "BN": net("mlp?depth=16&width=128&norm=batch", follow=True),
            "SGD": net("mlp?depth=16&width=128", follow=True),
            "SGD, 100 times the rate": net("mlp?depth=16&width=128", follow=True, times=100),
            "SGD, random inputs": net("mlp?depth=16&width=128", follow=True, noise=True),
        },
    },
    {
        **TINY,
        "kinds": {
            "BN": net("mlp?depth=16&width=32&norm=batch", follow=True),
            "SGD": net("mlp?depth=16&width=32", follow=True),
        },
    },
    lambda rows, config: parallel(rows, config),
    partial(plot_curves, right="mean |cos|"),
    f"CIFAR-10, {VGG19}: BatchNorm, none, none at 100 times the rate, none on images of uniform "
    f"random pixels, {RUNS} runs. {UNSTATED}",
    {
        **all_of("cifar10", EPOCHS, 128, RUNS, IMAGE_RATES),
        "kinds": {
            "BN": net("vgg19?norm=batch&init=torch", follow=True),
            "SGD": net("vgg19?init=torch", follow=True),
            "SGD, 100 times the rate": net("vgg19?init=torch", follow=True, times=100),
            "SGD, random inputs": net("vgg19?init=torch", follow=True, noise="uniform"),
        },
    },
)


def parallel(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Gradients are parallel without batch normalisation and not with it."""
    for kind in kinds(rows):
        value = mean_of(rows, kind, lambda r: r["start"]["mean |cos|"])
        parallel = not kind.startswith("BN")
        yield Claim(
            f"{kind}: gradients of two samples are {'parallel' if parallel else 'not parallel'}",
            f"mean |cos| {value:.5f} at the start",
            value > 0.999 if parallel else value < 0.9,
        )
    plain = [k for k in kinds(rows) if k.startswith("SGD")]
    yield from compared(rows, config, order=[("BN", "SGD")], stuck=plain, collapsed=plain)


DIGITS = figure(
    "pretraining-digits",
    "Plain SGD on 1437 digits, MLPs of depth 32 and width 64, 30 epochs: default weights, He, "
    "pre-trained, and batch normalisation, each at its best rate.",
    6,
    {
        **sizes("digits", 1437, 30, 64, 4, [0.003, 0.01, 0.03, 0.06, 0.1, 0.3]),
        "kinds": {
            "default": net("mlp?depth=32&width=64"),
            "He, rescaled": net("mlp?depth=32&width=64&init=he", "rescale"),
            "pre-trained": net("mlp?depth=32&width=64&init=he", "pretrain"),
            "BN": net("mlp?depth=32&width=64&init=he&norm=batch"),
        },
    },
    {
        **TINY,
        "kinds": {
            "default": net("mlp?depth=16&width=32"),
            "pre-trained": net("mlp?depth=16&width=32&init=he", "pretrain"),
        },
    },
    partial(
        compared,
        pretrained=["pre-trained"],
        order=[
            ("pre-trained", "default"),
            ("pre-trained", "BN"),
            ("pre-trained", "He, rescaled"),
        ],
        stuck=["default"],
        collapsed=["default"],
    ),
    plot_curves,
    "No figure of the paper: its pre-training on a task of seconds.",
)
