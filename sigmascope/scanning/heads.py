"""How many heads of attention a model has, as far as its configuration says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

QUERIES = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEYS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
SIZE = ("head_dim", "kv_channels", "d_kv")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim", "embed_dim")
TEXT = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True, slots=True)
class Heads:
    """Numbers of heads.

    Attributes:
        queries: Heads of queries; 0 where it is not known.
        keys: Heads of keys and of values; 0 where the configuration does not say.
        size: Outputs of one; 0 where it is not known.
    """

    queries: int = 0
    keys: int = 0
    size: int = 0

    def fit(self, out: int) -> bool:
        """Whether queries, keys and values of these numbers have so many outputs together."""
        keys = self.keys or self.queries
        return self.queries > 0 and out == (self.queries + 2 * keys) * self.size

    def groups_of(self, out: int, inner: int) -> int:
        """Heads of keys among so many outputs of queries, keys and values; 0 where none fit."""
        size = self.size or (inner // self.queries if self.queries else 0)
        if not self.queries or not size or out % size:
            return 0
        groups, odd = divmod(out // size - self.queries, 2)
        return groups if groups > 0 and not odd and self.queries % groups == 0 else 0

    def among(self, kind: str, outputs: int) -> int:
        """Heads within so many outputs, or inputs of what mixes them; 0 where none fit.

        Args:
            kind: What the matrix is.
            outputs: Of it; its inputs where it is the output of attention.
        """
        count = self.queries
        if kind in ("attention key", "attention value"):
            known = self.keys or (count if outputs == count * self.size else 0)
            count = known or (outputs // self.size if self.size else 0)
        return count if count and outputs % count == 0 else 0


UNKNOWN = Heads()


def heads_of(name: str, config: Mapping[str, Any]) -> Heads:
    """The heads in the part of a model that a tensor belongs to.

    Args:
        name: Of the tensor, which says whether it sees, reads or listens.
        config: Of the model.
    """
    mine = part_of(name, config)
    side = "decoder" if "decoder" in name.split(".") else "encoder"
    prefix = mine.get("general.architecture")  # of GGUF
    queries = _number(mine, f"{side}_attention_heads", f"{prefix}.attention.head_count", *QUERIES)
    keys = _number(mine, f"{prefix}.attention.head_count_kv", *KEYS)
    if mine.get("multi_query") is not None and not mine.get("new_decoder_architecture"):
        keys = 1 if mine["multi_query"] else queries
    width = _number(mine, f"{prefix}.embedding_length", *WIDTH)
    size = _number(mine, f"{prefix}.attention.key_length", *SIZE)
    return Heads(queries, keys, size or (width // queries if queries else 0))


def part_of(name: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the part of a model that a tensor belongs to."""
    inner = {k: v for k, v in config.items() if k.endswith("_config") and isinstance(v, Mapping)}
    words = name.split(".")
    for key, value in inner.items():
        if key not in TEXT and any(word.startswith(key[:3]) for word in words):
            return value
    text = next((inner[key] for key in TEXT if key in inner), config)
    attention = text.get("attn_config")
    return {**attention, **text} if isinstance(attention, Mapping) else text


def _number(config: Mapping[str, Any], *names: str) -> int:
    return next((v for n in names if type(v := config.get(n)) is int and v > 0), 0)
