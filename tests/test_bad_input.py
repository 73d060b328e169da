"""Bad input at the command line: one clear refusal, exit code 2, nothing printed or left behind."""

import gzip
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sigmascope import cli

MODELS = """
import sys, warnings
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, gives=None):
        super().__init__()
        self.layer, self.gives = nn.Linear(6, 3), gives
    def forward(self, x):
        y = self.layer(x)
        return y if self.gives is None else self.gives(y)

class Raises(Net):
    def forward(self, x): raise RuntimeError("my own trouble")

class Leaves(Net):
    def forward(self, x): sys.exit(3)

class Bare(nn.Module):
    def forward(self, x): return 2 * x

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
    def forward(self, x): return self.scale * x

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 6), nn.Linear(6, 3)
    def forward(self, ids, features): return self.out(self.words(ids).mean(1) + features)

def good(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
def normed(): return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
def raises(): raise OSError("no such weights")
def divides(): return 1 / 0
def needs(width, depth): return good()
def nothing(): good()
def number(): return 3
def a_class(): return nn.Linear
async def later(): return good()
def gives_none(): return Net(lambda y: None)
def gives_strings(): return Net(lambda y: ["a", "b"])
def gives_integers(): return Net(lambda y: y.argmax(1))
def gives_nothing_wide(): return Net(lambda y: y[:, :0])
def gives_one_number(): return Net(lambda y: y.mean())
def forward_raises(): return Raises()
def forward_leaves(): return Leaves()
def bare(): return Bare()
def scale(): return Scale()
def two(): return Two()
def lazy(): return nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(3))
def compiled(): return torch.compile(good(), backend="eager")

def with_nan():
    model = good()
    with torch.no_grad(): model[0].weight[1, 2] = float("nan")
    return model

def overflowed():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).eval()
    model[1].running_var[0] = float("inf")
    return model

def zero_width():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.Linear(6, 0), nn.Linear(0, 3))

def on_meta():
    with torch.device("meta"): return good()

def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(good())

def part_scripted(): return nn.Sequential(scripted(), nn.Linear(3, 3))

def sharded():
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor
    store = dist.FileStore("@STORE@", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = dist.init_device_mesh("cpu", (1,))
    model = good()
    model[0].weight = nn.Parameter(distribute_tensor(model[0].weight.data, mesh, [Shard(0)]))
    return model

X, Y = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
def batch(): return X, Y
def narrow(): return X[:, :4], Y
def integers(): return (9 * X).long(), Y
def one(): return X[:1], Y[:1]
def empty(): return X[:0], Y[:0]
def infinite(): return X / (X - X[2, 3])
def ragged(): return X, Y[:-1]
def far(): return X, Y + 7
def below(): return X, Y - 1
def values(): return X, torch.ones(8)
def unknown(): return X, torch.ones(8, 3).index_fill(0, torch.tensor(2), float("nan"))
def boundless(): return X, torch.ones(8, 3).index_fill(0, torch.tensor(5), float("inf"))
def imaginary(): return X, torch.ones(8, 3) + 1j
def vast(): return X, torch.ones(8, 3).double() * 1e300
def beyond(): return X.double() * 1e300, Y
def one_row(): return X[0]
def square(): return X, torch.zeros(8, 4, dtype=torch.long)
def a_word(): return "digits"
def three(): return X, Y, X
def strings(): return {"x": ["a", "b"]}
def stops():
    yield X, Y
    raise KeyError("page 2")
"""


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch it_ran",)


def write_arrays(home):
    x = np.ones((4, 6), np.float32)
    np.savez(home / "keys.npz", left=x, right=x)
    np.save(home / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.savez(home / "whole.npz", x=x)
    (home / "cut.npz").write_bytes((home / "whole.npz").read_bytes()[:-40])
    save_file({"x": torch.ones(4, 6)}, home / "whole.safetensors")
    (home / "cut.safetensors").write_bytes((home / "whole.safetensors").read_bytes()[:-8])
    (home / "empty.npy").touch()
    torch.save({"x": Evil()}, home / "evil.pt")
    (home / "evil.pth").write_bytes(pickle.dumps(Evil()))
    (home / "fashion").mkdir()
    images = gzip.compress(b"\0\0\x08\x03" + bytes(5000))
    (home / "fashion" / "train-images-idx3-ubyte.gz").write_bytes(images[:20])


def write_checkpoints(home):
    torch.manual_seed(0)
    state = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
    ).state_dict()
    torch.save({k: v for k, v in state.items() if k != "2.bias"}, home / "lacks.pt")
    torch.save(state | {"head.weight": torch.ones(2)}, home / "more.pt")
    torch.save(state | {"0.weight": torch.ones(5, 7)}, home / "shapes.pt")
    torch.save([1, 2], home / "list.pt")
    torch.save({k: v + 1j for k, v in state.items()}, home / "complex.pt")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder, with a space in its name, of everything that can be wrong."""
    home = tmp_path_factory.mktemp("my bad things")
    store = tmp_path_factory.mktemp("store") / "file"
    (home / "mine.py").write_text(MODELS.replace("@STORE@", str(store)))
    (home / "broken.py").write_text("def build(:\n")
    (home / "imports.py").write_text("import torch\nimport nosuchpackage\n")
    (home / "notes.txt").write_text("build = 3\n")
    for folder in ("folder", "hf", "hf_odd"):
        (home / folder).mkdir()
    (home / "hf" / "weights.txt").touch()
    (home / "hf_odd" / "config.json").write_text("{}")
    write_arrays(home)
    write_checkpoints(home)
    with sqlite3.connect(home / "other.db") as file:
        file.execute("CREATE TABLE notes (words TEXT)")
    file.close()
    return home


def everything(home):
    return {p.relative_to(home): p.stat().st_mtime_ns for p in home.rglob("*")}


def ends_with(arguments, monkeypatch):
    """Exit code of `sigmascope ARGUMENTS` in this process."""
    monkeypatch.setattr(sys, "argv", ["sigmascope", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


GOOD = ("profile", "mine.py:good", "--data", "mine.py:batch")


def model(name, data="batch"):
    return ("profile", f"mine.py:{name}", "--data", f"mine.py:{data}")


def data(spec):
    return ("profile", "mine.py:good", "--data", spec)


def weights(file):
    return (*GOOD, "--checkpoint", file)


REFUSED = {  # arguments, words that name the problem, words that say what to do
    # the model
    "a path that is not there": (("profile", "min.py:good"), "no file `min.py`", "mean `mine.py`"),
    "a file without a factory": (("profile", "mine.py"), "name of a factory", "`mine.py:NAME`"),
    "a name that is forgotten": (("profile", "mine.py:"), "name of a factory", "`mine.py:NAME`"),
    "not a Python file": (("profile", "notes.txt:build"), "no module `notes.txt`", "file.py:name"),
    "a factory that is not there": (model("goood"), "there is no `goood`", "Did you mean `good`"),
    "a factory that raises": (model("divides"), "ZeroDivisionError: division", "mine.py, line"),
    "a factory that finds no file": (model("raises"), "OSError: no such weights", "mine.py, line"),
    "a factory with arguments": (
        model("needs"),
        "needs the arguments `width`",
        "give them default",
    ),
    "a factory without a return": (model("nothing"), "got None", "return model"),
    "a factory of a number": (model("number"), "got a value of type int", "torch.nn.Module"),
    "a factory of a class": (model("a_class"), "got the class Linear", "call it"),
    "a factory that is async": (model("later"), "a coroutine", "without `async`"),
    "a syntax error": (("profile", "broken.py:build"), "not valid Python", "line 1"),
    "an import error": (("profile", "imports.py:build"), "`nosuchpackage`", "not installed"),
    "no such package": (("profile", "no.such:build"), "no module `no.such`", "path/to/file.py:nam"),
    "no such network": (("profile", "mpl?depth=3"), "no network `mpl`", "Did you mean `mlp`"),
    "no such model": (("profile", "mlpp"), "no model `mlpp`", "write `file.py:factory`"),
    "no such option": (("profile", "mlp?dpth=3"), "no option `dpth`", "Did you mean `depth`"),
    "no such value": (("profile", "mlp?norm=bach"), "got `bach`", "Did you mean `batch`"),
    "zero width": (("profile", "mlp?width=0"), "got 0", "1 or more"),
    "negative depth": (("profile", "mlp?depth=-3"), "got -3", "0 or more"),
    "more depth than memory": (("profile", "mlp?depth=100000000"), "GiB", "`depth` or `width` sm"),
    "more width than memory": (
        ("profile", "mlp?width=900000"),
        "GiB",
        "`depth` or `width` smaller",
    ),
    "weights as the model": (
        ("profile", "list.pt"),
        "weights, not a model",
        "--checkpoint list.pt",
    ),
    "a folder without config": (("profile", "hf"), "without a config.json", "holds `weights.txt`"),
    "a config of nothing": (("profile", "hf_odd"), "no `model_type`", "which model it is"),
    # what the model is made of, and what it does
    "NaN weights": (model("with_nan"), r"`0.weight` must be finite.*\(1, 2\)", "Load a checkpoint"),
    "statistics that overflowed": (
        model("overflowed"),
        r"`1.running_var` must be finite, got 1 of 6",
        "Load a checkpoint",
    ),
    "a layer of width zero": (model("zero_width"), "width zero", "at least one unit"),
    "weights on the meta device": (
        model("on_meta"),
        "the meta device",
        "Build the model on a real",
    ),
    "weights without a shape": (model("lazy"), "lazily initialised", "Run the model once"),
    "a TorchScript module": (model("scripted"), "TorchScript", "module it was scripted"),
    "a TorchScript part": (model("part_scripted"), "TorchScript.*at `0`", "module it was scripted"),
    "a model without parameters": (model("bare"), "without parameters", "holds the layers"),
    "a model without layers": (model("scale"), "Scale with none", "holds the layers"),
    "an output of None": (model("gives_none"), "got None", "Return the logits"),
    "an output of strings": (model("gives_strings"), "got list", "Return the logits"),
    "an output of integers": (model("gives_integers"), "torch.int64 tensor", "Return the logits"),
    "an output of no width": (model("gives_nothing_wide"), r"shape \(8, 0\)", "Return the logits"),
    "an output for no sample": (model("gives_one_number"), r"shape \(\)", "one class a sample"),
    "a forward that raises": (model("forward_raises"), "my own trouble", "Pass a batch"),
    "a forward that exits": (model("forward_leaves"), "SystemExit: 3", "Pass a batch"),
    "a forward of two arguments": (model("two"), "argument: 'features'", "Pass a mapping"),
    # the batch
    "rows of another width": (model("good", "narrow"), r"float32\[8, 4\]", "in_features=6"),
    "integers for floats": (model("good", "integers"), r"int64\[8, 6\]", "as floats"),
    "one sample to normalise": (model("normed", "one"), "more than 1 value", "two samples or more"),
    "no samples": (model("good", "empty"), r"empty: its shape is \(0, 6\)", "Give some rows"),
    "infinite data": (model("good", "infinite"), r"finite.*\(2, 3\)", "Clean the data"),
    "fewer targets than inputs": (model("good", "ragged"), "7 targets for 8", "as many targets"),
    "targets out of range": (model("good", "far"), "got 7", "classes from 0 to 2"),
    "negative targets": (model("good", "below"), "got -1", "Renumber them"),
    "NaN targets": (model("good", "unknown"), "1 of 8 samples with NaN.*row 2", "leave these sam"),
    "infinite targets": (model("good", "boundless"), "must be finite.*row 5", "fill the values"),
    "complex targets": (model("good", "imaginary"), "imaginary parts", "as two outputs"),
    "targets beyond the model": (model("good", "vast"), "fit torch.float32", "in float64"),
    "data beyond the model": (model("good", "beyond"), "fit the model's float32", "scale the data"),
    "one sample without its dimension": (
        model("good", "one_row"),
        r"shape \(6,\).*`0` \(Linear\) reads",
        r"unsqueeze\(0\)",
    ),
    "targets out of range of a bottleneck": (
        ("bottleneck", "mine.py:good", "--data", "mine.py:far"),
        "classes from 0 to 2.*got 7",
        "Renumber them",
    ),
    "values that do not fit": (model("good", "values"), r"\(8, 3\), got \(8,\)", "for each output"),
    "classes that do not fit": (model("good", "square"), r"shape \(8, 4\)", "one class a sample"),
    "a loader of a word": (model("good", "a_word"), "got str", "a tensor or an iterable"),
    "a loader of three": (model("good", "three"), "tuple of 3", r"give \(inputs, targets\)"),
    "a loader of strings": (model("good", "strings"), "of type list", "must hold numbers"),
    "a loader that raises": (model("good", "stops"), "KeyError: 'page 2'", "Reading batches"),
    "a loader that is forgotten": (data("mine.py"), "name of a loader", "`mine.py:NAME`"),
    "a pickle that runs code": (data("evil.pt"), "could run code", "safetensors"),
    "an old pickle that runs code": (data("evil.pth"), "evil.pth", "torch.save"),
    "a truncated npz": (data("cut.npz"), "damaged", "NumPy file"),
    "a truncated safetensors": (data("cut.safetensors"), "damaged", "safetensors file"),
    "an npz of other names": (
        data("keys.npz"),
        "it has `left`, `right`",
        "must name its inputs `x`",
    ),
    "arrays of objects": (data("objects.npy"), "Python objects", "save arrays of numbers"),
    "an empty file": (data("empty.npy"), "no bytes", "is empty"),
    "a folder as data": (data("folder"), "is a folder", "name a file in it"),
    "a text as data": (data("notes.txt"), "got `.txt`", "must be a file of kind .npy"),
    "data that are not there": (data("whole.npy"), "no file `whole.npy`", "mean `whole.npz`"),
    "no such data set": (data("digitz"), "no data set `digitz`", "Did you mean `digits`"),
    "no shape for gaussian": (
        ("profile", "mine.py:two", "--data", "gaussian"),
        "needs the shape",
        "gaussian.shape=64",
    ),
    "a truncated gz": (
        ("profile", "mlp", "--data", "fashion-mnist", "--folder", "fashion"),
        "damaged",
        "fetch it again",
    ),
    "a folder without the data set": (
        ("profile", "mlp", "--data", "cifar10", "--folder", "folder"),
        "CIFAR-10 is not here",
        "put its `train-00000-of-00001.parquet`",
    ),
    # the checkpoint
    "a checkpoint that lacks a name": (weights("lacks.pt"), "it lacks `2.bias`", "does not fit"),
    "a checkpoint of more names": (weights("more.pt"), "no `head.weight`", "does not fit"),
    "a checkpoint of other shapes": (weights("shapes.pt"), r"shape \(5, 7\)", r"model's \(5, 6\)"),
    "a checkpoint of complex numbers": (
        weights("complex.pt"),
        "`0.weight` is complex64, the model's float32",
        "save the real part",
    ),
    "a checkpoint that is a list": (
        weights("list.pt"),
        "value of type list",
        "must hold a state dict",
    ),
    "a checkpoint that runs code": (weights("evil.pt"), "whose code is not run", "state_dict"),
    "a checkpoint that is not there": (weights("lack.pt"), "no file", "Did you mean `lacks.pt`"),
    "a checkpoint of text": (weights("notes.txt"), "damaged or not", "torch.save"),
    # where to write
    "a page in no folder": ((*GOOD, "--html", "none/a.html"), "does not exist", "mkdir -p none"),
    "a page that is a folder": ((*GOOD, "--html", "folder"), "is a folder", "name a file"),
    "a JSON in no folder": ((*GOOD, "--json", "none/a.json"), "does not exist", "mkdir -p none"),
    "a JSON that is a folder": ((*GOOD, "--json", "folder"), "is a folder", "name a file"),
    "a JSON without a name": ((*GOOD, "--json", "--html", "a.html"), "--json", "--help"),
    "a run in no folder": ((*GOOD, "--run", "none/a.run"), "does not exist", "mkdir -p none"),
    "a run of text": ((*GOOD, "--run", "notes.txt"), "is not SQLite", "name another file"),
    "a run of another program": ((*GOOD, "--run", "other.db"), "another program", "another file"),
    "checks that are a folder": (
        ("check", *GOOD[1:], "--json", "folder"),
        "is a folder",
        "name a file",
    ),
    "checks in no folder": (
        ("check", *GOOD[1:], "--json", "none/a.json"),
        "does not exist",
        "mkdir -p none",
    ),
    # the options
    "no such view": ((*GOOD, "--views", "wieghts"), '"wieghts"', 'Did you mean "weights"'),
    "no views at all": ((*GOOD, "--views"), "at least 1 element", "profile --help"),
    "no samples wanted": ((*GOOD, "--samples", "0"), "got 0", "1 or more"),
    "negative samples": ((*GOOD, "--samples", "-3"), "got -3", "1 or more"),
    "samples in words": ((*GOOD, "--samples", "many"), '"many"', "profile --help"),
    "no outputs wanted": ((*GOOD, "--outputs", "0"), "got 0", "1 or more"),
    "a dimension too many": ((*GOOD, "--batch-dim", "5"), "got 5", "from 0 to 1"),
    "a dimension from behind": ((*GOOD, "--batch-dim", "-1"), "got -1", "from 0 to 1"),
    "a seed of many digits": ((*GOOD, "--seed", "9" * 20), "64 bits", "smaller number"),
    "no such option of ours": ((*GOOD, "--dta", "x"), "--dta", "Did you mean --data"),
    "a word too many": ((*GOOD, "extra"), "extra", "profile --help"),
    "no such theorem": (
        ("check", *GOOD[1:], "--theorem", "rank"),
        "no theorem `rank`",
        "sigmascope theorems",
    ),
    "no model": (("profile",), "MODEL requires", "profile --help"),
    "no such command": (("profle",), '"profle"', 'Did you mean "profile"'),
    # exports
    "no such run": (("export", "no.run", "--to", "csv"), "no run file", "--run no.run"),
    "an export of another program": (("export", "other.db", "--to", "csv"), "another prog", "name"),
    "an export of no form": (("export", "no.run"), "--to", "export --help"),
    "an export of an odd form": (("export", "no.run", "--to", "xml"), '"xml"', '"parquet", "csv"'),
    "an export into no folder": (
        ("export", "no.run", "--to", "csv", "--out", "none/a.csv"),
        "does not exist",
        "mkdir -p none",
    ),
    "an export onto a folder": (
        ("export", "no.run", "--to", "csv", "--out", "folder"),
        "is a folder",
        "name a file",
    ),
}


@pytest.mark.parametrize(("arguments", "problem", "remedy"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_in_one_clear_message(
    as_users_see_it, home, monkeypatch, capsys, arguments, problem, remedy
):
    monkeypatch.chdir(home)
    before = everything(home)
    code = ends_with(arguments, monkeypatch)
    said = capsys.readouterr()
    assert code == 2, said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    assert 0 < said.err.count("\n") <= 2  # the sentence, which names the help
    assert re.search(problem, said.err), said.err
    assert re.search(remedy, said.err), said.err
    assert everything(home) == before


def test_a_pickle_that_could_run_code_did_not(home):
    assert not (home / "it_ran").exists()


def test_sharded_weights_are_refused(as_users_see_it, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    before = everything(home)
    try:
        assert ends_with(model("sharded"), monkeypatch) == 2
    finally:
        torch.distributed.destroy_process_group()
    said = capsys.readouterr()
    assert re.search("`0.weight` must be a whole tensor, got a DTensor", said.err)
    assert "Gather it first" in said.err
    assert 0 < said.err.count("\n") <= 2  # the sentence, which names the help
    assert said.out == ""
    assert everything(home) == before


def test_a_compiled_model_is_measured(as_users_see_it, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's compiler, about itself
        assert ends_with(model("compiled"), monkeypatch) == 0
    assert capsys.readouterr().out.startswith("Measured 2 of 2 layers")


def test_a_model_that_misbehaves_shows_its_traceback_on_demand(
    as_users_see_it, home, monkeypatch, capsys
):
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "argv", ["sigmascope", *model("divides"), "--debug"])
    with pytest.raises(ValueError, match="division by zero") as caught:
        cli.main()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interruption_ends_in_130_and_says_so(home, tmp_path):
    ready = tmp_path / "ready"
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom pathlib import Path\n"
        f"def build():\n    Path({str(ready)!r}).touch()\n    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sigmascope", "profile", f"{slow}:build", "--html", "a.html"],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a job in the background ignores interruptions, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, error) == ("", "Interrupted.\n")
    assert not Path(home, "a.html").exists()


def test_a_reader_that_leaves_early_hears_nothing(home):
    words = f"{sys.executable} -m sigmascope theorems"
    ended = subprocess.run(
        ["bash", "-c", f"{words} | true"], cwd=home, capture_output=True, text=True, timeout=120
    )
    assert (ended.stdout, ended.stderr) == ("", "")
