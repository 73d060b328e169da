"""A folder of files that mean harm, and a few that do not.

`build(home)` fills a folder; `GROUPS` names what is in it by what it claims to be. Nothing here is
larger than a few hundred kilobytes on the disk, whatever it declares.
"""

import io
import json
import os
import pickle
import sqlite3
import struct
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

ESCAPE = "\x1b]0;owned\x07"  # renames the window of a terminal
NASTY = (
    ESCAPE,
    "\x1b[31mred",
    "a\nFAKE: fine",
    "a\rb",
    "\u202eback",
    "[red]x[/red]",
    "w#1",
    "é 字",
)

MODELS = """
import os, sys, threading, random
import torch
from torch import nn

def plain(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
def images(): return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
def lazy(): return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
def flat(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))

NAMES = %(names)r

class Named(nn.Module):
    def __init__(self):
        super().__init__()
        for i, name in enumerate(NAMES):
            self.add_module(name.replace(".", "_"), nn.Linear(6, 6))
        self.add_module("last", nn.Linear(6, 3))
    def forward(self, x):
        for part in self.children():
            x = torch.tanh(part(x))
        return x

class Loud(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x):
        print("hello", %(escape)r)
        os.write(1, b"raw\\n")
        return self.inner(x)

class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x):
        raise RuntimeError("broken " + %(escape)r)

class Nan(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x): return self.inner(x) * float("nan")

class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x): return torch.ones(len(x), 3) + 0 * self.inner(x)

class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x): return self.inner(x).detach()

class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.lock = plain(), threading.Lock()
    def forward(self, x):
        with self.lock: return self.inner(x)

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
    def forward(self, x): return "words"

class Huge(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()
        with torch.no_grad(): self.inner[0].weight.mul_(1e30)
    def forward(self, x): return self.inner(x)

class Sloppy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.seen = plain(), 0
    def forward(self, x):
        self.seen += 1
        random.random(); torch.rand(1)
        return self.inner(x)

def raises(): raise KeyError(%(escape)r)
def leaves(): sys.exit("gone " + %(escape)r)
def nothing(): return None
def needs(a): return plain()
def empty(): return nn.Sequential()
def zero_width(): return nn.Sequential(nn.Linear(6, 0), nn.Linear(0, 3))
def meta(): return plain().to("meta")
def half(): return plain().half()
def double(): return plain().double()
def complex_(): return plain().to(torch.complex64)
def one(): return nn.Linear(6, 1)
number = 3

def batch(): return torch.randn(8, 6), torch.arange(8) %% 3
def values(): return torch.randn(8, 6), torch.randn(8, 3)
def odd_targets(): return torch.randn(8, 6), torch.tensor([0, 1, 2, -5, 99, 0, 1, 2])
def infinite(): return torch.full((8, 6), float("inf")), torch.arange(8) %% 3
def nan_targets(): return torch.randn(8, 6), torch.full((8, 3), float("nan"))
def same(): return torch.ones(8, 6), torch.zeros(8, dtype=torch.long)
def single(): return torch.randn(1, 6), torch.tensor([0])
def wide(): return torch.randn(4, 7)
def texts(): return ["a", "b"]
def sparse(): return torch.eye(6).to_sparse(), torch.arange(6) %% 3
def meta_data(): return torch.ones(4, 6, device="meta")
def endless():
    while True: yield torch.randn(4, 6), torch.arange(4) %% 3
def program(): return {"model": plain(), "data": batch(), "loss": "cross_entropy",
                       "optimizer": "sgd", "lr": 0.1, "epochs": 2}
def program_of_values(): return {"model": plain(), "data": values(), "loss": nn.MSELoss()}
def program_of_none(): return {"model": None, "data": batch(), "loss": "cross_entropy"}
def program_of_a_class(): return {"model": Named, "data": batch(), "loss": "cross_entropy"}
def program_without_end(): return {**program(), "epochs": float("inf"), "lr": float("nan")}
def program_of_odd_loss(): return {**program(), "loss": lambda out, y: sys.exit(3)}
def program_of_loud_loss(): return {**program(), "loss": lambda out, y: 1 / 0}
def program_that_leaves(): return {**program(), "model": Breaks()}
def program_of_nan(): return {**program(), "model": Nan()}
def program_of_endless_data(): return {**program(), "data": endless()}
def program_of_odd_keys(): return {**program(), %(escape)r: 3, "modle": 4, 5: 6}
def program_of_words(): return "program"
def raising():
    yield torch.randn(4, 6), torch.arange(4) %% 3
    raise ValueError(%(escape)r)
"""

GOOD_MODELS = ("plain", "images", "flat", "Named", "half", "double", "one", "Sloppy", "Locked")
BAD_MODELS = (
    "Loud", "Breaks", "Nan", "Constant", "Detached", "Words", "Huge", "raises", "leaves", "nothing",
    "needs", "empty", "zero_width", "lazy", "meta", "complex_", "number", "missing",
)  # fmt: skip
GOOD_PROGRAMS = ("program", "program_of_values", "program_of_nan")
BAD_PROGRAMS = (
    "program_of_none", "program_of_a_class", "program_without_end", "program_of_odd_loss",
    "program_of_loud_loss", "program_that_leaves", "program_of_endless_data",
    "program_of_odd_keys", "program_of_words", "plain", "number", "raises", "leaves", "missing",
)  # fmt: skip
SCRIPT = """
import sys, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(64, 6), torch.arange(64) % 3
for step in range(60):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    STEP
    opt.step()
"""
SCRIPTS = {  # by name: what is done in each step
    "train.py": "pass",
    "loud.py": "print('\\x1b]0;owned\\x07', end='\\r')",
    "exits.py": "sys.exit(3)",
    "exits_in_words.py": "sys.exit('\\x1b[31m gone\\nFAKE: fine')",
    "raises.py": "raise ValueError('\\x1b]0;owned\\x07\\nFAKE: fine')",
    "ends.py": "import os; os._exit(7)",
    "killed.py": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "closes.py": "import os; os.close(1); os.close(2)",
    "nan.py": "net[0].weight.data.fill_(float('nan'))",
    "recurses.py": "f = lambda: f(); f()",
    "interrupts.py": "raise KeyboardInterrupt",
    "moves.py": "import os; os.chdir('/')",
    "hooks.py": "sys.excepthook = sys.stdout = None",
}
GOOD_LOADERS = ("batch", "values", "same", "endless")
BAD_LOADERS = (
    "odd_targets", "infinite", "nan_targets", "single", "wide", "texts", "sparse", "meta_data",
    "raising", "nope",
)  # fmt: skip


def build(home: Path) -> dict[str, tuple[str, ...]]:
    """Fill a folder; names by what they claim to be."""
    (home / "m.py").write_text(MODELS % {"names": NASTY, "escape": ESCAPE})
    for name, step in SCRIPTS.items():
        (home / name).write_text(SCRIPT.replace("STEP", step))
    (home / "nothing.py").write_text("")
    (home / "null.py").write_bytes(b"import torch\0\n")
    (home / "waits.py").write_text("import time\ntime.sleep(1000)\n")
    arrays, weights, others = _arrays(home), _weights(home), _others(home)
    return {"arrays": arrays, "weights": weights, "others": others}


def _arrays(home: Path) -> tuple[str, ...]:
    x, y = np.random.default_rng(0).normal(size=(9, 6)).astype("f4"), np.arange(9) % 3
    np.save(home / "x.npy", x)
    np.savez(home / "xy.npz", x=x, y=y)
    np.savez_compressed(home / "packed.npz", x=x, y=y)
    np.save(home / "words.npy", np.array(["a", "b"]))
    np.save(home / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(home / "fields.npy", np.zeros(3, dtype=[("a", "f4"), ("b", "i8")]))
    np.save(home / "none.npy", np.zeros((0, 6), "f4"))
    np.save(home / "scalar.npy", np.float32(3))
    np.save(home / "date.npy", np.zeros(3, "M8[s]"))
    claims = {"claims.npy": (2**40, 4), "claims_zero.npy": (2**62, 0, 4)}
    for name, shape in claims.items():
        (home / name).write_bytes(_npy(shape) + x.tobytes())
    (home / "cut.npy").write_bytes((home / "x.npy").read_bytes()[:150])
    (home / "head.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff{'descr")
    (home / "future.npy").write_bytes(b"\x93NUMPY\x09\x00\x10\x00" + b" " * 40)
    (home / "negative.npy").write_bytes(_npy((-1, 6)) + x.tobytes())
    (home / "deep.npy").write_bytes(_header("(" * 5000 + ")" * 5000))
    (home / "bomb.npz").write_bytes(_bomb())
    with zipfile.ZipFile(home / "many.npz", "w") as archive:
        for i in range(2000):
            archive.writestr(f"{i}{ESCAPE}", b"")
    packed = bytearray((home / "packed.npz").read_bytes())
    for name, place, value in (("locked.npz", 6, 1), ("method.npz", 8, 97)):
        changed = bytearray(packed)
        at = changed.find(b"PK\x01\x02")
        while at >= 0:
            struct.pack_into("<H", changed, at + place + 2, value)
            at = changed.find(b"PK\x01\x02", at + 4)
        (home / name).write_bytes(changed)
    packed[len(packed) // 2] ^= 255
    (home / "flipped.npz").write_bytes(packed)
    (home / "cut.npz").write_bytes((home / "xy.npz").read_bytes()[:-40])
    return tuple(sorted(p.name for p in home.iterdir() if p.suffix in (".npy", ".npz")))


@cache  # of several folders: to pack it takes longer than all else
def _bomb() -> bytes:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", _npy((2**26, 1)) + bytes(2**28))
    return bomb.getvalue()


def _weights(home: Path) -> tuple[str, ...]:
    plain = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).state_dict()
    torch.save(plain, home / "good.pt")
    save_file(plain, home / "good.safetensors")
    torch.save({"x": torch.randn(9, 6), "y": torch.arange(9) % 3}, home / "data.pt")
    torch.save({**plain, ESCAPE: torch.ones(2)}, home / "escape.pt")
    torch.save({k: v * float("nan") for k, v in plain.items()}, home / "nan.pt")
    torch.save({k: v[:1] for k, v in plain.items()}, home / "small.pt")
    torch.save({k: v.to_sparse() for k, v in plain.items()}, home / "sparse.pt")
    torch.save({k: torch.ones(1).expand(2**40, 8) for k in plain}, home / "expanded.pt")
    torch.save({k: v.to("meta") for k, v in plain.items()}, home / "meta.pt")
    torch.save({k: v.to(torch.float8_e4m3fn) for k, v in plain.items()}, home / "float8.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # new files hold none, old ones do
        old = {k: torch.quantize_per_tensor(v, 0.1, 0, torch.qint8) for k, v in plain.items()}
        torch.save(old, home / "q.pt")
    torch.save([1, 2, 3], home / "list.pt")
    shared, named = [1.0], {"w": torch.ones(2, 2)}
    for _ in range(60):
        shared, named = [shared, shared], {"a": named, "b": named}
    torch.save({"x": shared, "y": named}, home / "shared.pt")
    torch.save(named, home / "named.pt")
    torch.save({"a\ud800b": torch.ones(4, 4), "b": torch.randn(4, 4)}, home / "half.pt")
    torch.save({"a": {"b": 1}}, home / "nested.pt")
    torch.save(plain, home / "old.pth", _use_new_zipfile_serialization=False)
    (home / "evil.pt").write_bytes(pickle.dumps(_Evil(str(home / "it_ran"))))
    (home / "pickle.pt").write_bytes(pickle.dumps([1]))
    good = (home / "good.pt").read_bytes()
    (home / "cut.pt").write_bytes(good[: len(good) // 2])
    (home / "bits.pt").write_bytes(bytes(b ^ (i % 97 == 5) for i, b in enumerate(good)))
    with zipfile.ZipFile(home / "inflated.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(2**24))
    safe = (home / "good.safetensors").read_bytes()
    (home / "long.safetensors").write_bytes(struct.pack("<Q", 2**60) + safe[8:])
    (home / "cut.safetensors").write_bytes(safe[:100])
    head = {"a": {"dtype": "F32", "shape": [2**40, 9], "data_offsets": [0, 4]}}
    body = json.dumps(head).encode()
    (home / "claims.safetensors").write_bytes(struct.pack("<Q", len(body)) + body + bytes(4))
    suffixes = (".pt", ".pth", ".safetensors")
    return tuple(sorted(p.name for p in home.iterdir() if p.suffix in suffixes))


def _others(home: Path) -> tuple[str, ...]:
    before = {p.name for p in home.iterdir()}
    for name in (
        "empty.npy",
        "empty.pt",
        "empty.run",
        "empty.json",
        f"{ESCAPE}.pt",
        "new\nline.npy",
    ):
        (home / name).touch()
    (home / "notes.txt").write_text("mine, and without an end")
    (home / "table.csv").write_text("a,b\n1,2\n3,4")
    (home / "mine.json").write_text('{"mine": 1}\n{"mine": 2}')
    (home / "mine.html").write_text("<p>mine</p>")
    (home / "rules.toml").write_text("[[rule]]\nname = '0.weight'\nparts = ['a', 'b']\n")
    (home / "syntax.py").write_text("def f(:\n")
    (home / "folder").mkdir()
    (home / "hf").mkdir()
    (home / "hf" / "config.json").write_text('{"model_type": "bert", "hidden_size": 99999999}')
    (home / "link.json").symlink_to("mine.json")
    (home / "lost.json").symlink_to("nowhere/at all")
    (home / "loop").symlink_to("loop")
    for name in ("pipe.npy", "pipe.py", "pipe.toml", "pipe.run", "pipe.safetensors"):
        os.mkfifo(home / name)
    (home / "zero.toml").symlink_to("/dev/zero")
    (home / "deep.toml").write_text("a = " + "[" * 100_000)
    (home / "hf_pipe").mkdir()
    (home / "hf_pipe" / "config.json").write_text('{"model_type": "bert"}')
    os.mkfifo(home / "hf_pipe" / "model.safetensors")
    index = {"weight_map": {"a": "pipe.safetensors", "b": "good.safetensors"}}
    (home / "model.safetensors.index.json").write_text(json.dumps(index))
    with (home / "sparse.npy").open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    with sqlite3.connect(home / "other.db") as file:
        file.execute("CREATE TABLE notes (words TEXT)")
    file.close()
    (home / "half.run").write_bytes((home / "other.db").read_bytes()[:4000])
    return tuple(sorted({p.name for p in home.iterdir()} - before))


class _Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def _npy(shape: tuple[int, ...]) -> bytes:
    return _header(repr({"descr": "<f4", "fortran_order": False, "shape": shape}))


def _header(words: str) -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(words) + 1) + words.encode() + b"\n"
