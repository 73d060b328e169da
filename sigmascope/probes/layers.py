"""Which modules are layers: those that apply a weight of two or more dimensions."""

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

WHOLE = (nn.MultiheadAttention, nn.RNNBase)  # fused: what is inside them is never called
NORMALISERS = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def layers(model: nn.Module) -> dict[str, nn.Module]:
    """Every layer of `model` by name: a module that applies a weight of its own as a linear map.

    Linear, (transposed) convolution, embedding, recurrent and attention modules; any other module
    without layers inside that owns a floating parameter of two or more dimensions.
    """
    found: dict[str, nn.Module] = {}
    hidden: set[nn.Module] = set()
    for name, module in model.named_modules():
        if module in hidden or "parametrizations" in name.split("."):
            continue
        if isinstance(module, WHOLE):
            hidden.update(module.modules())
            found[name] = module
        elif _applies_weight(module):
            found[name] = module
    return found


def normalisers(model: nn.Module) -> dict[str, nn.Module]:
    """Every normaliser with a trainable scale or shift, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, NORMALISERS) and next(module.parameters(), None) is not None
    }


def channel_dim(module: nn.Module, value: Tensor) -> int:
    """The dimension of a layer's input or output that counts channels (features)."""
    convolves = isinstance(module, _ConvNd | _BatchNorm | _InstanceNorm | nn.GroupNorm)
    return 1 if convolves and value.ndim > 2 else value.ndim - 1


def transposed(module: nn.Module) -> bool:
    """Whether a convolution is applied as its adjoint."""
    return isinstance(module, _ConvTransposeNd)


def _applies_weight(module: nn.Module) -> bool:
    if isinstance(module, NORMALISERS):
        return False
    own = (*module.parameters(recurse=False), *_parametrised(module))
    alone = all(isinstance(child, nn.Identity) or not _owns(child) for child in _children(module))
    return alone and any(p.ndim >= 2 and p.is_floating_point() for p in own)


def _parametrised(module: nn.Module) -> tuple[nn.Parameter, ...]:
    inside = getattr(module, "parametrizations", None)
    return tuple(inside.parameters()) if isinstance(inside, nn.Module) else ()


def _children(module: nn.Module) -> list[nn.Module]:
    return [child for name, child in module.named_children() if name != "parametrizations"]


def _owns(module: nn.Module) -> bool:
    return any(p.ndim >= 2 for p in module.parameters())
