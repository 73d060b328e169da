"""Low-rank adapters of PEFT: pairs of matrices, and how much of their product is added.

Source:
    Hu et al. (2022), "LoRA"; Kalajdzievski (2023), "A rank stabilization scaling factor for
    fine-tuning with LoRA"; names and settings are those of `peft.LoraConfig`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod, sqrt
from typing import Any, NamedTuple

from sigmascope.checkpoints.decoders import Flattened, Plain, Turned
from sigmascope.checkpoints.tensors import Adapter, LeftOut, Stored

PART = re.compile(
    r"(?P<stem>.*?)\.?lora_(?P<part>A|B|embedding_A|embedding_B)(\.(?!bias$)[^.]*)?(\.weight)?"
)
BEFORE = "base_model.model."
DORA = "lora_magnitude_vector"
IS_DORA = "Of DoRA, which also changes the size of each row: not a change of low rank."
TWICE = "Of another adapter on the same layer: one at a time is read, save each by itself."
SHIFTS = ("pissa", "olora", "corda", "loftq", "lora_ga")  # starts that are taken off the base
LARGEST = 1e30  # of a scale
LONGEST = 1000  # letters of a name that is taken apart
PATTERN = 200  # letters of a pattern of layers
REPEATS = re.compile(r"[*+{?]")
NESTED = re.compile(r"\)\s*[*+{?]")
HARD = "A pattern of adapter_config.json that might be its own takes too long, or is damaged."


class Pairs(NamedTuple):
    """What the tensors of an adapter are: pairs, whole tensors, and what is left out."""

    adapters: list[Adapter]
    tensors: list[Stored]
    left_out: list[LeftOut]


def paired(tensors: Iterable[Stored], settings: Mapping[str, Any]) -> Pairs:
    """The pairs of an adapter, with the weight that each changes.

    The weight of layer `x` is `x.weight`. Pairs of an embedding, and of layers that store their
    weight transposed (`fan_in_fan_out`), are turned so that `B @ A` is as the weight is stored.
    Modules that were trained whole (`modules_to_save`) stay tensors. What changes a weight in
    another way than by a product that is added (DoRA) is left out. Of convolutions, whose second
    kernel is a point wide, the change is the product of both, flattened.

    Args:
        tensors: Of the file of the adapter.
        settings: Its `adapter_config.json`.
    """
    sides: dict[tuple[str, bool], dict[str, Stored]] = {}
    whole, left = [], []
    directed = {_layer(t.name.partition(DORA)[0]) for t in tensors if DORA in t.name}
    for tensor in tensors:
        match = PART.fullmatch(tensor.name) if len(tensor.name) <= LONGEST else None
        if match is not None:
            embedding, side = match["part"].startswith("embedding"), match["part"][-1]
            both = sides.setdefault((_layer(match["stem"]), embedding), {})
            if side in both:
                left.append(LeftOut(tensor.name, TWICE))
            both.setdefault(side, tensor)
        elif DORA in tensor.name:
            left.append(LeftOut(tensor.name, "Magnitudes of DoRA, which are no low-rank change."))
        else:
            whole.append(replace(tensor, name=_layer(tensor.name)))
    pairs = []
    for (layer, embedding), both in sides.items():
        made = _pair(layer, both, settings, turned=embedding)
        made = IS_DORA if layer in directed else made
        if isinstance(made, Adapter):
            pairs.append(made)
        else:
            left += [LeftOut(t.name, made) for t in both.values()]
    return Pairs(pairs, whole, left)


def _layer(name: str) -> str:
    return name.removeprefix(BEFORE).rstrip(".")


def _pair(
    layer: str, both: dict[str, Stored], settings: Mapping[str, Any], *, turned: bool
) -> Adapter | str:
    """A pair, or why it is none."""
    kind = str(settings.get("peft_type", "LORA")).upper()
    if kind != "LORA":
        return f"Of an adapter of kind {kind[:40]}, not of two matrices whose product is added."
    if len(both) != 2:
        return "One matrix of a pair, whose other one is not in the file."
    a, b = both["A"], both["B"]
    if len(a.shape) != len(b.shape) or len(a.shape) < 2 or any(n != 1 for n in b.shape[2:]):
        return f"Its shapes are {a.shape} and {b.shape}, which are no two matrices or kernels."
    if len(a.shape) > 2:
        if not all(isinstance(t._decoder, Plain) for t in (a, b)):
            return "Its kernels are packed and would have to be flattened."
        flat = lambda t: (t.shape[0], prod(t.shape[1:]))
        a, b = (replace(t, shape=flat(t), _decoder=Flattened()) for t in (a, b))
    if a.shape[0] != b.shape[1]:
        return f"Its matrices have shapes {a.shape} and {b.shape}, which have no product."
    rank = a.shape[0]
    try:
        alpha = _of_layer(layer, settings.get("alpha_pattern"), settings.get("lora_alpha"))
        declared = _of_layer(layer, settings.get("rank_pattern"), settings.get("r"))
    except re.error:
        return HARD
    # a whole number of JSON may have any number of digits
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not abs(alpha) < LARGEST:
        return "Its `lora_alpha` is no number in adapter_config.json: its scale is not known."
    if declared is not None and declared != rank:
        return f"It has rank {rank}, and adapter_config.json says otherwise: one is damaged."
    if not rank:
        return "It has rank 0."
    scaling = alpha / (sqrt(rank) if settings.get("use_rslora") is True else rank)
    inward = settings.get("fan_in_fan_out") is True
    if turned or inward:
        if not all(isinstance(t._decoder, Plain) for t in (a, b)):
            return "Its matrices are packed and would have to be transposed."
        a, b = _transposed(b), _transposed(a)
    # whether the product is what training has added to the base
    start, shifted = str(settings.get("init_lora_weights", "")), ""
    if start.lower().startswith(SHIFTS):
        shifted = (
            f"adapter_config.json says `init_lora_weights={start[:40]}`, which changes the base as "
            "well: merge it with PEFT, and compare what comes of that"
        )
    name, said = f"{layer}.weight" if layer else "weight", None if turned else inward
    return Adapter(name, a, b, scaling, said, shifted)


def _transposed(tensor: Stored) -> Stored:
    return replace(tensor, shape=tensor.shape[::-1], _decoder=Turned())


def _of_layer(layer: str, patterns: Any, usual: Any) -> Any:
    """The setting of a layer: of the first pattern that fits the end of its name, or the usual."""
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        if _fits(str(pattern), layer):
            return value
    return usual


def _fits(pattern: str, layer: str) -> bool:
    """As `peft` matches: a regular expression for the last parts of the name, or all of it.

    Raises:
        re.error: If it is none, or one whose matching could take long: of repeated groups, or of
            many repetitions or choices.
    """
    if layer == pattern or layer.endswith(f".{pattern}"):
        return True
    if not re.search(r"[^\w.]", pattern):
        return len(layer) <= LONGEST and re.fullmatch(rf"(.*\.)?({pattern})", layer) is not None
    repeats, choices = len(REPEATS.findall(pattern)), pattern.count("|")
    long = len(pattern) > PATTERN or len(layer) > PATTERN
    if long or choices > 8 or repeats + (choices > 0) > 2 or NESTED.search(pattern):
        raise re.error("too hard")
    return re.fullmatch(rf"(.*\.)?({pattern})", layer) is not None
