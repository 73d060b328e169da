"""Files of every kind that a command reads, well formed and then broken in one to three places.

`Files(home).broken(rng)` is a command line and the file that it will meet. What is broken is not
only bytes: fields of JSON, columns of a run file, members of an archive and what their pickles say
are exchanged behind whole checksums, so that readers see them.
"""

import io
import json
import pickle
import random
import shutil
import sqlite3
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.distributed import checkpoint

from tests.fuzz.world import ESCAPE

INTEGERS = (0, 1, 7, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
VALUES = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 2**70, 10**400, 0.5, -0.0, 1e308, "", "a", "0",
    "F32", "BF16", "F8_E4M3", "I4", ESCAPE, "a\nFAKE: fine", "\ud800", "../x", "/etc/passwd",
    "x" * 70_000, [], {}, [[]], [0, 0], [-1, 4], [2**62, 4], [0], [1] * 300, {"a": {}},
    {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, float("nan"), float("inf"),
)  # fmt: skip
WORDS = ("[[rule]]\n", "name = 1\n", "parts = []\n", "]]", '"""', "\x00", "=", "inf", "{", ESCAPE)


def _deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


# ------------------------------------------------------------------------------
# Ways to break.


def bytes_broken(data: bytes, rng: random.Random) -> bytes:
    """Cut, flipped, moved, repeated, zeroed, or with a number in it exchanged."""
    data = bytearray(data)
    head = rng.random() < 0.6  # where formats declare things
    at = rng.randrange(min(len(data), 400) if head else len(data)) if data else 0
    size = rng.choice((1, 4, 8, 64, 1000))
    kind = rng.randrange(8)
    if kind == 0:
        del data[at:]
    elif kind == 1:
        for _ in range(rng.choice((1, 3, 50))):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        del data[at : at + size]
    elif kind == 3:
        data[at:at] = data[at : at + size] * rng.choice((1, 2, 50))
    elif kind == 4:
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == 5:
        width = rng.choice((2, 4, 8))
        value = rng.choice(INTEGERS) % (1 << 8 * width)
        data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))
    elif kind == 6:
        data[at:at] = rng.randbytes(size)
    else:
        data += rng.choice((bytes(size), rng.randbytes(size), bytes(data[:size])))
    return bytes(data)


def document_broken(value, rng: random.Random):
    """One place in what JSON says is something else, gone, or there twice under other names."""
    places: list[tuple] = []

    def visit(node):
        keys = (
            list(node) if isinstance(node, dict) else range(len(node) if type(node) is list else 0)
        )
        for key in keys:
            places.append((node, key))
            visit(node[key])

    visit(value)
    if not places or rng.random() < 0.03:
        return rng.choice((*VALUES, _deep(rng.choice((50, 900)))))
    node, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.7:
        node[key] = rng.choice(VALUES)
    elif kind < 0.8:
        del node[key]
    elif isinstance(node, dict):
        name = rng.choice(("", ESCAPE, "\ud800", "__metadata__", "a.b", "x" * 5000, f"{key}_"))
        node[name] = node.pop(key) if kind < 0.9 else node[key]
    else:
        node.append(node[key])
    return value


def json_broken(data: bytes, rng: random.Random) -> bytes:
    """A document of JSON, broken where it says something."""
    return json.dumps(document_broken(json.loads(data), rng)).encode("utf-8", "surrogatepass")


def safetensors_broken(data: bytes, rng: random.Random) -> bytes:
    """The header of a .safetensors file is another, and as long as it says."""
    (length,) = struct.unpack("<Q", data[:8])
    head = json_broken(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(head)) + head + data[8 + length :]


def zip_broken(data: bytes, rng: random.Random) -> bytes:
    """Members are broken, gone, there twice, named otherwise, packed; checksums hold."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [[info.filename, archive.read(info)] for info in archive.infolist()]
    victim = rng.choice(members)
    kind = rng.randrange(6)
    if kind <= 2:
        pickles = [m for m in members if m[0].endswith(("data.pkl", ".npy"))] or members
        victim = rng.choice(pickles if rng.random() < 0.7 else members)
        victim[1] = bytes_broken(victim[1], rng)
    elif kind == 3:
        members.remove(victim)
    elif kind == 4:
        members.append([victim[0], bytes_broken(victim[1], rng)])
    else:
        victim[0] = rng.choice(("", "/x", "../x", ESCAPE, victim[0] + "/", "a/" * 300, "x.npy"))
    out = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED,) * 3 + (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name or "_"), content, packing)
    return out.getvalue()


def pickle_broken(data: bytes, rng: random.Random) -> bytes:
    """An archive of `torch.save` whose pickle is one of ours, of odd things."""
    tensor = torch.arange(6.0).reshape(2, 3)
    odd = (
        {"a": tensor, "b": tensor.T, "c": tensor[:0], "d": tensor.expand(2**30, 2, 3)},
        {1: tensor, None: tensor, (1, 2): tensor, 2.5: [tensor]},
        {"model": {"model": {"model": {"w": tensor}}}, "epoch": 10**400, "args": object},
        {"w": nn.Parameter(tensor), "x": torch.nested.nested_tensor([tensor, tensor[:1]])},
        {"w": tensor.to_sparse_csr(), "x": tensor.to(torch.complex32), "y": tensor > 1},
        {"w.lora_A.weight": tensor, "w.lora_B.weight": tensor, "alpha": ESCAPE},
        {ESCAPE: tensor, "a\nFAKE: fine": tensor, "\ud800": tensor, "": tensor},
        {"w": torch.tensor(float("nan")), "v": torch.full((3, 3), float("inf"))},
        {"w": torch.zeros(2, 2, 2, 2, 2, 2, 2), "v": torch.zeros(0, 2**40)},
        [tensor, {"state_dict": tensor}], tensor, (), 3, "words", _deep(400), nn.Linear(2, 3),
        {"optimizer": {"state": {0: {"exp_avg": tensor}}, "param_groups": [{"lr": ESCAPE}]}},
        {"qweight": tensor.int(), "qzeros": tensor.int(), "scales": tensor, "g_idx": tensor.int()},
        {"a.qweight": tensor.int(), "a.qzeros": tensor[:1].int(), "a.scales": tensor[:, :0]},
        {"w": tensor.to(torch.uint8), "w.absmax": tensor, "w.quant_map": tensor[0],
         "w.quant_state.bitsandbytes__nf4": torch.tensor(list(b"{"), dtype=torch.uint8)},
    )  # fmt: skip
    out = io.BytesIO()
    torch.save(rng.choice(odd), out, _use_new_zipfile_serialization=rng.random() < 0.7)
    return out.getvalue()


def rows_broken(data: bytes, rng: random.Random) -> bytes:
    """A run file in whose tables something else stands, as its checksum may or may not know."""
    with sqlite3.connect(":memory:") as file:
        file.deserialize(data[:18] + b"\1\1" + data[20:])  # in memory there is no log ahead of it
        tables = [r[0] for r in file.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        table = rng.choice(tables)
        columns = [r[1] for r in file.execute(f'PRAGMA table_info("{table}")')]
        column = rng.choice(columns)
        value = rng.choice(
            (None, -1, 2**62, 1e308, "", ESCAPE, "{}", "[", b"", b"\xff", "x" * 70_000)
        )
        few = f'WHERE rowid IN (SELECT rowid FROM "{table}" ORDER BY random() LIMIT 2)'
        for words, given in (
            rng.choice(
                (
                    (f'UPDATE "{table}" SET "{column}" = ? {few}', (value,)),
                    (f'UPDATE "{table}" SET "{column}" = ?', (value,)),
                    (f'DELETE FROM "{table}" {few}', ()),
                    (f'DELETE FROM "{table}"', ()),
                    (f'DROP TABLE "{table}"', ()),
                    (f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "odd"', ()),
                    (f"PRAGMA user_version = {rng.choice((0, 1, 3, 99))}", ()),
                    (f"PRAGMA application_id = {rng.choice((0, 77))}", ()),
                    ("CREATE VIEW odd AS SELECT 1", ()),
                    (f'CREATE TRIGGER t AFTER UPDATE ON "{table}" BEGIN SELECT 1; END', ()),
                )
            ),
        ):
            try:
                file.execute(words, given)
            except sqlite3.Error:
                return bytes_broken(data, rng)
        file.commit()
        changed = file.serialize()
    file.close()
    return changed[:18] + data[18:20] + changed[20:]


def words_broken(data: bytes, rng: random.Random) -> bytes:
    """Text in which something else stands."""
    at = rng.randrange(len(data))
    more = rng.choice(WORDS).encode() * rng.choice((1, 1, 3, 3000))
    return data[:at] + more + data[at + rng.choice((0, 0, 5)) :]


# ------------------------------------------------------------------------------
# The files, and who reads them.

BYTES = (bytes_broken,)
SAFE, ZIP = (safetensors_broken, safetensors_broken, bytes_broken), (zip_broken, bytes_broken)
PICKLED, JSON = (pickle_broken, zip_broken, bytes_broken), (json_broken, json_broken, bytes_broken)
PLACE = "out"  # of what is broken: a file beside the good ones, or a folder of its own


class Files:
    """Well-formed files in a folder, each with ways to break it and commands that read it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kinds: list[tuple[str, str, tuple[Callable, ...], tuple[str, ...]]] = []
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        plain = net.state_dict()
        weights = ("scan", "scan against", "compare", "checkpoint", "compress")
        save_file(plain, home / "w.safetensors", metadata={"format": "pt"})
        torch.save(plain, home / "w.pt")
        torch.save(plain, home / "w.pth", _use_new_zipfile_serialization=False)
        self._add("w.safetensors", "", SAFE, weights)
        self._add("w.pt", "", PICKLED, weights)
        self._add("w.pth", "", BYTES, weights)
        self._gguf(plain)
        self._folders(plain)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(9, 6)).astype("f4"), np.arange(9) % 3
        np.save(home / "w.npy", x)
        np.savez(home / "w.npz", x=x, y=y)
        save_file({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, home / "xy.safetensors")
        self._add("w.npy", "", BYTES, ("data",))
        self._add("w.npz", "", ZIP, ("data",))
        self._add("xy.safetensors", "", SAFE, ("data",))
        runs = ("view", "export", "resume", "compare")
        self._add("kept.run", "", (rows_broken, rows_broken, bytes_broken), runs)
        self._add("rules.toml", "", (words_broken, bytes_broken), ("rules",))
        self._add("train.py", "", (words_broken, bytes_broken), ("script",))

    def _add(self, name, inside, ways, doors):
        self.kinds.append((name, inside, ways, doors))

    def _gguf(self, plain):
        writer = gguf.GGUFWriter(str(self.home / "w.gguf"), "llama")
        writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
        writer.add_context_length(64)
        for name, tensor in plain.items():
            writer.add_tensor(name, tensor.numpy())
        blocks = np.random.default_rng(0).integers(0, 255, (4, 34), dtype=np.uint8)
        writer.add_tensor("blk", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self._add("w.gguf", "", BYTES, ("scan", "scan against", "compare"))

    def _folders(self, plain):
        scans = ("scan", "scan against", "compare")
        shards = self.home / "shards"
        shards.mkdir()
        names = list(plain)
        save_file({n: plain[n] for n in names[:2]}, shards / "a.safetensors")
        save_file({n: plain[n] for n in names[2:]}, shards / "b.safetensors")
        index = {n: "a.safetensors" if n in names[:2] else "b.safetensors" for n in names}
        text = {"metadata": {"total_size": 212}, "weight_map": index}
        (shards / "model.safetensors.index.json").write_text(json.dumps(text))
        (shards / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 6}))
        for file, ways in (
            ("model.safetensors.index.json", JSON),
            ("a.safetensors", SAFE),
            ("config.json", JSON),
        ):
            self._add("shards", file, ways, scans)
        adapter = self.home / "adapter"
        adapter.mkdir()
        pair = {"0.lora_A.weight": torch.randn(2, 6), "0.lora_B.weight": torch.randn(5, 2)}
        save_file({f"base_model.model.{k}": v for k, v in pair.items()},
                  adapter / "adapter_model.safetensors")  # fmt: skip
        settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "alpha_pattern": {"0": 8},
                    "rank_pattern": {}, "use_rslora": False, "fan_in_fan_out": False,
                    "base_model_name_or_path": "x", "init_lora_weights": True}  # fmt: skip
        (adapter / "adapter_config.json").write_text(json.dumps(settings))
        self._add("adapter", "adapter_config.json", JSON, scans)
        self._add("adapter", "adapter_model.safetensors", SAFE, scans)
        chunks = self.home / "chunks"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one process is meant
            checkpoint.save({"model": plain}, checkpoint_id=chunks, no_dist=True)
        self._add("chunks", ".metadata", (*BYTES, self._metadata), scans)
        self._add("chunks", "__0_0.distcp", BYTES, scans)
        hf = self.home / "bert"
        hf.mkdir()
        config = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9,
                  "num_attention_heads": 2, "intermediate_size": 8, "pad_token_id": 0,
                  "max_position_embeddings": 16, "architectures": ["BertModel"]}  # fmt: skip
        (hf / "config.json").write_text(json.dumps(config))
        self._add("bert", "config.json", JSON, ("profile",))
        gpt = self.home / "gptq"
        gpt.mkdir()
        packed = {"a.qweight": torch.randint(0, 2**31 - 1, (4, 8), dtype=torch.int32),
                  "a.qzeros": torch.randint(0, 2**31 - 1, (2, 1), dtype=torch.int32),
                  "a.scales": torch.rand(2, 8).half(),
                  "a.g_idx": torch.arange(32, dtype=torch.int32) // 16}  # fmt: skip
        save_file(packed, gpt / "model.safetensors")
        bits = {"quantization_config": {"bits": 4, "group_size": 16, "quant_method": "gptq",
                                        "desc_act": False, "sym": True}}  # fmt: skip
        (gpt / "config.json").write_text(json.dumps(bits))
        self._add("gptq", "config.json", JSON, scans)
        self._add("gptq", "model.safetensors", SAFE, scans)

    @staticmethod
    def _metadata(data: bytes, rng: random.Random) -> bytes:
        """Fields of the metadata of a distributed checkpoint say something else."""
        found = pickle.loads(data)
        infos = list(found.storage_data.values())
        entries = [e for e in found.state_dict_metadata.values() if hasattr(e, "chunks")]
        odd = rng.choice((-1, 0, 2**62, "a", None, ESCAPE, "../w.pt", 1.5, [], float("nan")))
        target, field = rng.choice(
            (
                (rng.choice(infos), rng.choice(("relative_path", "offset", "length"))),
                (rng.choice(entries), rng.choice(("size", "chunks", "properties"))),
                (rng.choice(rng.choice(entries).chunks), rng.choice(("offsets", "sizes"))),
                (found, rng.choice(("state_dict_metadata", "storage_data", "planner_data"))),
            )
        )
        value = odd if rng.random() < 0.5 else rng.choice((torch.Size([2**40, 2**40]), {}, (odd,)))
        object.__setattr__(target, field, value)
        return pickle.dumps(found)

    def broken(self, rng: random.Random) -> tuple[tuple[str, ...], Path]:
        """A command line and the file that was broken, in the place of an earlier one."""
        name, inside, ways, doors = rng.choice(self.kinds)
        good = self.home / name
        place = self.home / (PLACE + "".join(good.suffixes[-1:]))
        self.clear()
        if good.is_dir():
            shutil.copytree(good, place)
        else:
            shutil.copy(good, place)
        file = place / inside if inside else place
        data = file.read_bytes()
        for before in range(rng.choice((1, 1, 1, 2, 3))):
            try:
                data = rng.choice(ways)(data, rng)
            except Exception:
                if not before:
                    raise
                data = bytes_broken(data, rng)  # what was broken already cannot be read
        file.write_bytes(data)
        return self.command(rng.choice(doors), place.name, rng), file

    def clear(self) -> None:
        """Take away what was broken before."""
        for old in self.home.glob(f"{PLACE}*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()

    @staticmethod
    def command(door: str, name: str, rng: random.Random) -> tuple[str, ...]:
        """Who reads a file."""
        on = ("m.py:plain", "--data")
        json = rng.choice(((), (), ("--json", "-")))
        return {
            "scan": ("scan", name, *json, *rng.choice(((), ("--whole",), ("--plan",)))),
            "scan against": ("scan", "good.pt", "--against", name, *json),
            "compare": ("compare", *rng.sample((name, "good.pt"), 2)),
            "checkpoint": ("profile", *on, "m.py:batch", "--checkpoint", name, *json),
            "compress": ("compress", *on, "m.py:batch", "--checkpoint", name),
            "data": ("profile", *on, name, "--loss", "cross_entropy", *json),
            "profile": ("profile", name, *json),
            "view": ("view", name, "--html", "out.html"),
            "export": ("export", name, "--to", rng.choice(("csv", "json", "parquet")),
                       "--table", rng.choice(("readings", "spectra", "checks", "layers"))),
            "resume": ("profile", *on, "m.py:batch", "--run", name, "--step", "9"),
            "rules": ("scan", "good.pt", "--rules", name),
            "script": ("diagnose", name, "--seconds", "4", "--steps", "8"),
        }[door]  # fmt: skip
