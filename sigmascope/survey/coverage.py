"""Measurements that may fail without the others."""

from collections.abc import Iterable, Iterator

from sigmascope.core.records import Item, Layer, Skipped
from sigmascope.models import Subject, weights
from sigmascope.models.layers import in_words, is_matrix, module_name, multiply_adds, normalisers
from sigmascope.models.state import still


def tried(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The items up to the first failure, which is told in their place.

    Args:
        items: Measured one after the other, as they are asked for.
        what: They are, in words.
    """
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 (models fail in every way; the line says which)
        yield Skipped("(all layers)", what, in_words(error))


LAYER, WEIGHT = "layer", "weight"  # what was not covered
UNCALLED = "the model does not call it on this batch"
OUTSIDE = "applied outside of any call of a layer: what it reads and writes there was not measured"
UNREAD = (
    "outputs depend on it, but no call of it can be read, as inside of `torch.vmap` or "
    "`torch.func.grad`: what it reads and writes was not measured"
)
UNOWNED = "no layer that was called owns it: what it reads and writes was not measured"


def covered(subject: Subject) -> tuple[tuple[Layer, ...], list[Skipped]]:
    """Layers in the order of calls; layers and weights of which no call was recorded."""
    with still(subject.model):
        sites = sorted({w.site for w in weights(subject.model)})
    owned: dict[str, list[str]] = {name: [] for name in subject.modules}
    for site in sites:
        ends = [i for i, letter in enumerate(site) if letter == "."]
        for name in ("", *(site[:end] for end in ends)):
            if name in owned:
                owned[name].append(site)
    found = tuple(
        Layer(
            **{"site": c.site, "kind": type(c.module).__name__, "depth": depth},
            parameters=tuple(owned[module_name(c.site)]),
            reads=tuple(c.input.shape),
            writes=tuple(c.output.shape),
            numbers=sum(p.numel() for p in c.module.parameters()),
            multiply_adds=multiply_adds(c),
        )
        for depth, c in enumerate(subject.calls)
    )
    called = {module_name(layer.site) for layer in found}
    outside: frozenset[str] = frozenset()
    doubts: list[Skipped] = []
    try:
        outside = frozenset(subject.uses_outside)
    except Exception as error:  # noqa: BLE001 (operations of the user's may refuse to be watched)
        why = f"the model cannot be watched: {in_words(error)}"
        doubts.append(Skipped("(model)", "weights applied outside of layers", why))
    # layers that were never called, and whether their weights were applied all the same
    for name, module in subject.modules.items():
        if name not in called:
            mine = {f"{name}.{key}" for key, _ in module.named_parameters()}
            unread = not mine & outside and mine & differentiated(subject)
            doubts.append(
                Skipped(name, LAYER, OUTSIDE if mine & outside else UNREAD if unread else UNCALLED)
            )
    # weights that are applied, or could be, where nothing is recorded, layers' own aside
    absent = {id(p) for n, m in subject.modules.items() if n not in called for p in m.parameters()}
    recorded = [subject.modules[n] for n in called] + [*normalisers(subject.model).values()]
    reached = {id(p) for module in recorded for p in module.parameters()}
    own = dict(subject.model.named_parameters())
    for name in sorted(outside):
        if name not in own or id(own[name]) not in absent - reached:
            doubts.append(Skipped(name, WEIGHT, OUTSIDE))
    for name, p in own.items():
        matrix = is_matrix(p) and (p.is_floating_point() or p.is_complex())
        if matrix and name not in outside and id(p) not in absent | reached:
            doubts.append(Skipped(name, WEIGHT, UNOWNED))
    return found, doubts


def differentiated(subject: Subject) -> frozenset[str]:
    """Weights that outputs depend on and no call of a layer accounts for; none if unknown."""
    try:
        return subject.unaccounted
    except Exception:  # noqa: BLE001 (not differentiable: what is told without remains)
        return frozenset()
