"""One network trained with plain SGD, as a row of a figure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope import diagnosis, sources, survey
from sigmascope.models import networks
from sigmascope_experiments.figures import Row, Task, generator_of

PROBE = 128  # samples on which the initial network is measured and pre-trained


@dataclass(frozen=True, slots=True)
class Split:
    """Standardised inputs and labels, to train and to test on."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    def to(self, device: torch.device) -> "Split":
        """The same on a device."""
        return Split(*(t.to(device) for t in (self.x, self.y, self.x_test, self.y_test)))


CPU = torch.device("cpu")


def trained(task: Task, folder: Path | None, *, device: torch.device = CPU) -> Row:
    """Build, treat, measure and train the network of a task.

    Args:
        task: `data`, `samples`, `network` (a query), `treatment` (`none`, `rescale`, `pretrain` or
            `pretrain-N` with N steps), `rate`, `seed`, `epochs`, `batch`; and, if need be,
            `follow` (measure after each epoch too), `noise` (random inputs: normal, or
            `uniform`), `times` (a factor of the rate) and `test` (images of the test split).
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        device: Where it is trained. What it starts from is drawn, and pre-trained, on the CPU.

    Returns:
        Rank and participation ratio of the last representation at the start and after each epoch,
        mean |cos| of last-layer gradients, loss and accuracy of each epoch, and on other samples.
    """
    data = split(task["data"], task["samples"], folder, test=task.get("test"))
    if task.get("noise"):  # inputs that have nothing to do with their labels
        g, spread = generator_of(task), math.sqrt(12)  # of unit variance
        drawn = torch.rand if task["noise"] == "uniform" else torch.randn
        x = drawn(data.x.shape, generator=g)
        data = replace(data, x=(x - 0.5) * spread if task["noise"] == "uniform" else x)
    seed = generator_of({"network": task["network"], "seed": task["seed"]})
    model = networks.build(
        task["network"], inputs=tuple(data.x.shape[1:]), outputs=10, generator=seed
    )
    model = treated(model, task.get("treatment", "none"), data).to(device)
    data = data.to(device)
    first = readings(model, data)
    curves: list[dict[str, float]] = []
    optimizer = torch.optim.SGD(model.parameters(), lr=task["rate"] * task.get("times", 1))
    order = generator_of(task)
    for _ in range(task["epochs"]):
        loss, accuracy = epoch(model, data, optimizer, batch=task["batch"], generator=order)
        tested = accuracy_of(model, data.x_test, data.y_test)
        curves.append({"loss": loss, "accuracy": accuracy, "test accuracy": tested})
        if not loss < 1e4:  # it has diverged
            break
        if task.get("follow"):
            curves[-1].update(readings(model, data))
    final = {"accuracy": accuracy_of(model, data.x, data.y)}
    final["test accuracy"] = accuracy_of(model, data.x_test, data.y_test)
    return {"start": first, "curves": curves, "final": final}


def split(name: str, samples: int, folder: Path | None, *, test: int | None = None) -> Split:
    """`samples` to train on, and others to test on, centred, of unit spread.

    Args:
        name: Of the data.
        samples: To train on.
        folder: Where they lie.
        test: How many of the test split to test on; without, a quarter as many as are trained on,
            of the same split.
    """
    x, y = _images(name, samples + (samples // 4 if test is None else 0), folder)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    if test is not None:
        tested = _images(f"{name}?split=test", test, folder)
        x, y = torch.cat([x, tested[0]]), torch.cat([y, tested[1]])
    x = x - x[:samples].mean(0)
    x = x / x[:samples].std()
    return Split(x[:samples], y[:samples], x[samples:], y[samples:])


def _images(name: str, count: int, folder: Path | None) -> tuple[Tensor, Tensor]:
    loaded = sources.open_data(name, samples=count, folder=folder)
    assert isinstance(loaded.inputs, Tensor)
    assert loaded.targets is not None
    return loaded.inputs.float(), loaded.targets


def treated(model: nn.Module, treatment: str, data: Split) -> nn.Module:
    """The network with zero biases and unit mean squares, or pre-trained; or as it is."""
    if treatment == "none":
        return model
    name, _, steps = treatment.partition("-")
    if name == "rescale":  # pre-training with steps of no length leaves zeroed, rescaled layers
        return diagnosis.remedies.RankPretraining(steps=1, step=1e-12).apply(model, data.x[:PROBE])
    return diagnosis.remedies.RankPretraining(steps=int(steps or 25)).apply(model, data.x[:PROBE])


def readings(model: nn.Module, data: Split) -> dict[str, float]:
    """Rank and participation ratio of what the last layer reads, mean |cos| of its gradients."""
    profile = survey.profile(
        model,
        data.x[:PROBE],
        targets=data.y[:PROBE],
        loss=F.cross_entropy,
        views=["representations", "gradients"],
    )
    sites = {layer.site for layer in profile.layers}
    found: dict[str, float] = {}
    for quantity in ("matrix rank", "participation ratio"):
        series = [r for r in profile.series(quantity, form="samples") if r.site in sites]
        found[quantity] = series[-1].estimate.value if series else 0.0
    cosines = profile.series("mean |cos|", view="gradients")
    if cosines:
        found["mean |cos|"] = cosines[0].estimate.value
    return found


def epoch(
    model: nn.Module,
    data: Split,
    optimizer: torch.optim.Optimizer,
    *,
    batch: int,
    generator: torch.Generator,
) -> tuple[float, float]:
    """One pass; mean loss and accuracy of its batches, before each step."""
    model.train()
    losses, hits = 0.0, 0
    for rows in _batches(len(data.x), batch, generator):
        optimizer.zero_grad()
        output = model(data.x[rows])
        loss = F.cross_entropy(output, data.y[rows])
        loss.backward()
        optimizer.step()
        losses += float(loss.detach()) * len(rows)
        hits += int((output.argmax(1) == data.y[rows]).sum())
    return losses / len(data.x), hits / len(data.x)


def _batches(total: int, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Shuffled; a last batch of one sample, which cannot be normalised, is left out."""
    for rows in torch.randperm(total, generator=generator).split(batch):
        if len(rows) > 1:
            yield rows


def accuracy_of(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of right answers, with the statistics of this batch where there is normalisation."""
    model.train()
    with torch.no_grad():
        answers = torch.cat([model(part).argmax(1) for part in x.split(500)])
    return float((answers == y).double().mean())
