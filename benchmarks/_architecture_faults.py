"""Faults planted in five families of public architectures, each with the rules that may name it.

Two families, on which thresholds were looked at, are kept apart from the three that report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import _tasks as tasks
from benchmarks._tasks import LETTERS, Task

TUNED = ("ResNet", "GPT")


@dataclass(slots=True)
class Case:
    """A program, which faults change in place.

    Attributes:
        model: The network.
        batch: Its inputs.
        targets: What it learns.
        loss: By which.
    """

    model: nn.Module
    batch: Any
    targets: Any
    loss: Callable[[Tensor, Any], Tensor]


Change = Callable[[Case], None]


class Letters(nn.Module):
    """A language model of letters: an embedding, an LSTM, and a linear layer."""

    def __init__(self, *, both: bool = False) -> None:
        super().__init__()
        self.read = nn.Embedding(LETTERS, 64)
        self.cell = nn.LSTM(64, 32 if both else 64, 2, batch_first=True, bidirectional=both)
        self.drop, self.between = nn.Dropout(0.1), nn.Linear(64, 64)
        self.act = nn.Tanh()
        self.write = nn.Linear(64, LETTERS)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Scores of the next letter at every place."""
        states = self.cell(self.read(input_ids))[0]
        return self.write(self.act(self.between(self.drop(states))))


def resnet(**options: Any) -> nn.Module:
    """Timm's ResNet-18, an eighth as wide."""
    import timm

    sizes = {"channels": (16, 32, 64, 128), "stem_width": 16, **options}
    return timm.create_model("resnet18", num_classes=10, **sizes)


def gpt(**options: Any) -> nn.Module:
    """Transformers' GPT-2 with four layers of width 64."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": LETTERS, "n_positions": 64, "n_embd": 64, "n_layer": 4, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=2, **options))


def vit(**options: Any) -> nn.Module:
    """Timm's vision transformer with four layers of width 64."""
    from timm.models.vision_transformer import VisionTransformer

    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 64, "depth": 4, "num_heads": 4}
    return VisionTransformer(num_classes=10, **sizes, **options)


def unet(**options: Any) -> nn.Module:
    """Monai's U-Net of three scales with batch normalisation."""
    from monai.networks.nets import UNet

    sizes = {"channels": (16, 32, 64), "strides": (2, 2), "num_res_units": 1}
    return UNet(2, 3, 3, **sizes, norm="BATCH", act="RELU", **options)


FAMILIES: dict[str, tuple[Callable[..., nn.Module], Callable[[], Task]]] = {
    "ResNet": (resnet, partial(tasks.images, count=128)),
    "GPT": (gpt, tasks.next_letters),
    "ViT": (vit, partial(tasks.images, count=128)),
    "U-Net": (unet, tasks.denoised),
    "LSTM": (Letters, tasks.next_letters),
}


def case(family: str, **options: Any) -> Case:
    """A family's model with fresh weights, and its task."""
    make, task = FAMILIES[family]
    torch.manual_seed(0)
    model, given = make(**options), task()
    return Case(model, given.batch, given.targets, given.loss)


def _built(family: str, **options: Any) -> Change:
    def change(c: Case) -> None:
        c.model = case(family, **options).model

    return change


def _weights(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.ndim > 1]


def _filled(value: float, *names: str) -> Change:
    """Parameters whose names hold one of the words, or all, are set to a number."""

    def change(c: Case) -> None:
        for name, p in c.model.named_parameters():
            if not names or any(word in name for word in names):
                p.data.fill_(value)

    return change


def _constant(c: Case) -> None:
    for p in _weights(c.model):
        p.data.fill_(0.05)


def _scaled(factor: float) -> Change:
    def change(c: Case) -> None:
        for p in _weights(c.model):
            p.data.mul_(factor)

    return change


def _replaced(kind: type[nn.Module], by: Callable[[], nn.Module]) -> Change:
    """Every module of a kind is exchanged."""

    def change(c: Case) -> None:
        for parent in [*c.model.modules()]:
            for name, child in [*parent.named_children()]:
                if isinstance(child, kind):
                    setattr(parent, name, by())

    return change


def _identities(*names: str) -> Change:
    """Modules whose last name is one of these do nothing."""

    def change(c: Case) -> None:
        for name, _ in [*c.model.named_modules()]:
            parent, _, last = name.rpartition(".")
            if last in names:
                setattr(c.model.get_submodule(parent), last, nn.Identity())

    return change


def _frozen(*but: str) -> Change:
    def change(c: Case) -> None:
        for name, p in c.model.named_parameters():
            p.requires_grad_(any(word in name for word in but))

    return change


def _both(*changes: Change) -> Change:
    def change(c: Case) -> None:
        for each in changes:
            each(c)

    return change


class Cut(nn.Module):
    """A module whose output is taken off the tape."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **named: Any) -> Any:
        """What the module gives, detached."""
        out = self.inner(*args, **named)
        if isinstance(out, Tensor):
            return out.detach()
        return tuple(t.detach() if isinstance(t, Tensor) else t for t in out)


class Crossed(nn.Module):
    """A module whose output is reshaped as if the places came first."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **named: Any) -> Any:
        """What the module gives, with places of one sample next to those of another."""
        out = self.inner(*args, **named)
        first = out if isinstance(out, Tensor) else out[0]
        mixed = first.transpose(0, 1).reshape(first.shape)
        return mixed if isinstance(out, Tensor) else (mixed, *out[1:])


def _wrapped(name: str, by: Callable[[nn.Module], nn.Module]) -> Change:
    def change(c: Case) -> None:
        parent, _, last = name.rpartition(".")
        owner = c.model.get_submodule(parent)
        setattr(owner, last, by(owner.get_submodule(last)))

    return change


def _stale(c: Case) -> None:
    """Statistics of other pictures (dark and of little contrast), and evaluation mode."""
    with torch.no_grad():
        for _ in range(60):
            c.model.train()(0.02 * c.batch - 0.3)
    c.model.eval()


def _shuffled(c: Case) -> None:
    c.targets = c.targets[
        torch.randperm(len(c.targets), generator=torch.Generator().manual_seed(7))
    ]


def _bytes(c: Case) -> None:
    c.batch = (c.batch * 60 + 120).clamp(0, 255)


class Idle(nn.Module):
    """A model with a layer that its forward pass forgets."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.extra = inner, nn.Sequential(nn.Linear(64, 64), nn.ReLU())

    def forward(self, *args: Any, **named: Any) -> Any:
        """What the model gives, without the layer."""
        return self.inner(*args, **named)


def _idle(c: Case) -> None:
    c.model = Idle(c.model)


class Softmaxed(nn.Module):
    """A model that gives probabilities where scores are wanted."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **named: Any) -> Tensor:
        """Probabilities."""
        out = self.inner(*args, **named)
        return F.softmax(out if isinstance(out, Tensor) else out.logits, -1)


def _softmaxed(c: Case) -> None:
    c.model = Softmaxed(c.model)


def _unmasked(c: Case) -> None:
    for module in c.model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False
    c.model.config._attn_implementation = "eager"  # which reads the mask alone
    rows, places = c.batch["input_ids"].shape
    c.batch["attention_mask"] = torch.zeros(rows, 1, places, places)


def _copied(c: Case) -> None:
    c.targets = c.batch["input_ids"].clone()


def _padded(c: Case) -> None:
    """Rows of 8 to 24 letters in 32, filled up with an id that counts."""
    for row, length in enumerate(torch.arange(8, 25).repeat(8)[: len(c.targets)].tolist()):
        c.batch["input_ids"][row, length:] = 0
        c.targets[row, length:] = 0


def _loud(c: Case) -> None:
    g = torch.Generator().manual_seed(3)
    weight = next(p for p in c.model.parameters() if p.ndim == 2 and len(p) == LETTERS)
    weight.data.copy_(torch.randn(weight.shape, generator=g))


def _closed(c: Case) -> None:
    """Input and output gates that start shut."""
    for name, p in c.model.named_parameters():
        if name.startswith("cell.bias"):
            width = len(p) // 4
            p.data[:width] = -30.0
            p.data[3 * width :] = -30.0


def _sigmoids(c: Case) -> None:
    """ReLU exchanged for sigmoids that are driven to their ends."""
    _replaced(nn.ReLU, nn.Sigmoid)(c)
    for module in c.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.fill_(40.0)


SIZE = ("weight-scale", "exploding-signal", "loud-output", "saturated-units", "layer-gain")
CLOSED = ("saturated-units", "dead-units", "vanishing-signal", "sigmoid-stack")
NORMS = {"norm_layer": nn.Identity}
DEEP = {"layers": (8, 8, 8, 8), "zero_init_last": False, **NORMS}
DROPPED = {"resid_pdrop": 0.99, "embd_pdrop": 0.99}

# kind: rules that may name it, and what makes it in each family that it applies to
FAULTS: dict[str, tuple[tuple[str, ...], dict[str, Change]]] = {
    "zeroed layers": (("zero-weights",), {
        "ResNet": _filled(0.0, "layer2.0.conv", "layer2.0.bn2"),
        "GPT": _filled(0.0, "h.1.mlp.c_"),
        "ViT": _filled(0.0, "blocks.1.mlp.fc"),
        "U-Net": _filled(0.0, "model.1.submodule.1"),
        "LSTM": _filled(0.0, "between", "write"),
    }),
    "constant weights": (("equal-units", "asymmetric-weights"), dict.fromkeys(FAMILIES, _constant)),
    "unused layer": (("unused-layers",), dict.fromkeys(FAMILIES, _idle)),
    "weights far too large": (SIZE, {
        "ResNet": _both(_built("ResNet", **NORMS), _scaled(10.0)),
        "GPT": _scaled(30.0),  # from a standard deviation of 0.02
        "ViT": _scaled(30.0),
        "U-Net": _both(_replaced(nn.BatchNorm2d, nn.Identity), _scaled(10.0)),
        "LSTM": _scaled(10.0),
    }),
    "normal tied embeddings": (("loud-output",), {"GPT": _loud}),
    "copied targets": (("copied-targets",), {"GPT": _copied, "LSTM": _copied}),
    "counted padding": (("counted-padding",), {"GPT": _padded, "LSTM": _padded}),
    "no causal mask": (("later-inputs-seen",), {
        "GPT": _unmasked, "LSTM": _built("LSTM", both=True),
    }),
    "missing activations": (("linear-layers",), {
        "ResNet": _identities("act1"), "GPT": _identities("act"), "ViT": _identities("act"),
        "U-Net": _identities("A"), "LSTM": _identities("act"),
    }),
    "dropout 0.99": (("heavy-dropout",), {
        "ResNet": _built("ResNet", drop_rate=0.99), "GPT": _built("GPT", **DROPPED),
        "ViT": _built("ViT", proj_drop_rate=0.99), "U-Net": _built("U-Net", dropout=0.99),
        "LSTM": _replaced(nn.Dropout, partial(nn.Dropout, 0.99)),
    }),
    "frozen backbone": (("frozen-layer",), {
        "ResNet": _frozen("fc"), "GPT": _frozen("ln_f"), "ViT": _frozen("head"),
        "U-Net": _frozen("model.2."), "LSTM": _frozen("write"),
    }),
    "stale statistics": (("stale-statistics",), {"ResNet": _stale, "U-Net": _stale}),
    "detached branch": (("no-gradient", "wrong-backward"), {
        "ResNet": _wrapped("layer2", Cut), "GPT": _wrapped("transformer.h.2.mlp", Cut),
        "ViT": _wrapped("blocks.2.mlp", Cut), "U-Net": _wrapped("model.1.submodule.1", Cut),
        "LSTM": _wrapped("cell", Cut),
    }),
    "reshape across the batch": (("mixed-samples",), {
        "ResNet": _wrapped("layer2", Crossed), "GPT": _wrapped("transformer.h.1.mlp", Crossed),
        "ViT": _wrapped("blocks.1.mlp", Crossed), "U-Net": _wrapped("model.1.submodule.0", Crossed),
        "LSTM": _wrapped("cell", Crossed),
    }),
    "shuffled labels": (("unrelated-targets",), {"ResNet": _shuffled, "ViT": _shuffled}),
    "softmax before cross-entropy": (("double-softmax", "out-of-reach"), {
        "ResNet": _softmaxed, "GPT": _softmaxed, "ViT": _softmaxed, "LSTM": _softmaxed,
    }),
    "pixels 0 to 255": (("unscaled-inputs",), {
        "ResNet": _bytes, "ViT": _bytes, "U-Net": _bytes,
    }),
    "unscaled residual branches": (("strong-residual", "exploding-signal", "layer-gain"), {
        "ResNet": _built("ResNet", **DEEP),
    }),
    "saturated sigmoids": (CLOSED, {"ResNet": _sigmoids, "U-Net": _sigmoids, "LSTM": _closed}),
}  # fmt: skip


def faults() -> list[tuple[str, str, Change, tuple[str, ...]]]:
    """Kind, family, what makes it, and the rules that may name it."""
    return [
        (kind, family, change, rules)
        for kind, (rules, families) in FAULTS.items()
        for family, change in families.items()
    ]
