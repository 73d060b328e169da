"""Figures that train networks: 1, 4 to 7 and 10 to 13, at sizes for two cores.

Each compares kinds of networks, every one at its best learning rate of a small grid.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from sigmascope_experiments.daneshmand2020.comparisons import (
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


def _deep(rows: list[Row]) -> list[str]:
    return [k for k in kinds(rows) if int(k.split()[1]) >= 16]


def by_depth(depths: tuple[int, ...]) -> dict[str, Any]:
    """PyTorch's default network at some depths."""
    return {f"depth {d}": net(f"mlp?depth={d}&width=128") for d in depths}


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
        "kinds": by_depth((1, 2, 4, 8, 16, 32)),
    },
    {**TINY, "kinds": by_depth((1, 16))},
    lambda rows, config: compared(
        rows,
        config,
        order=[("depth 1", "depth 16")],
        stuck=_deep(rows),
        collapsed=_deep(rows),
    ),
    plot_depths,
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
    )


FIG4 = _versus("fig4", "cifar10", "loss", "loss")
FIG11 = _versus("fig11", "cifar10", "accuracy and test accuracy", "test accuracy")
FIG12 = _versus("fig12", "fashion-mnist", "loss and accuracy", "loss")


# The paper finds no difference.
CENTRING = ("BN", "BN without centring")


def _broken(name: str, base: str, word: str, rates: list[float], minutes: float) -> Figure:
    return figure(
        name,
        f"Breaking batch normalisation: {word} on CIFAR-10, symmetric and positive weights "
        "(1000 images and 5 epochs).",
        minutes,
        {
            **sizes("cifar10", 1000, 5, 32, 4, rates),
            "kinds": {
                "BN": net(f"{base}&norm=batch&init=torch"),
                "BN without centring": net(f"{base}&norm=batch-uncentred&init=torch"),
                "BN, asymmetric": net(f"{base}&norm=batch&init=asymmetric"),
            },
        },
        {
            **TINY,
            "kinds": {
                "BN": net("mlp?depth=12&width=32&norm=batch"),
                "BN, asymmetric": net("mlp?depth=12&width=32&norm=batch&init=asymmetric"),
            },
        },
        partial(compared, order=[("BN", "BN, asymmetric"), CENTRING], collapsed=["BN, asymmetric"]),
        plot_curves,
    )


FIG5 = _broken("fig5", "vgg?depth=10&width=16", "a VGG of 10 layers", [0.01, 0.1], 16)
FIG13 = _broken("fig13", "resnet?depth=14&width=8", "a ResNet of 14 layers", [0.01, 0.1], 16)

FIG6 = figure(
    "fig6",
    "Accuracy and participation ratio (a lower bound on the rank) over training, Fashion-MNIST, "
    "MLPs of depth 32 and width 128 (2000 images and 15 epochs).",
    24,
    {
        **sizes("fashion-mnist", 2000, 15, 128, 4, [0.03, 0.1]),
        "kinds": {
            "default": net(DEEP, follow=True),
            "pre-trained, 25 steps": net(
                "mlp?depth=32&width=128&init=he", "pretrain-25", follow=True
            ),
            "pre-trained, 75 steps": net(
                "mlp?depth=32&width=128&init=he", "pretrain-75", follow=True
            ),
            "BN": net(f"{DEEP}&norm=batch", follow=True),
            "BN, asymmetric": net(f"{DEEP}&norm=batch&init=asymmetric", follow=True),
        },
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
    plot_curves,
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
)
