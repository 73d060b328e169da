"""Every door gives the same on a second device, wherever its data lie, and leaves it as it was.

No machine of ours has an accelerator, so a device of our own stands in for one
(`twin_device.cpp`): memory that the CPU's operations refuse, a generator of its own, gradients in a
thread of its own. It needs a compiler, and says so where there is none.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models_zoo import MODELS
from test_left_as_found import targets_for
from twin_doors import DOORS, parted

from tests.sampling import some

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
COMPILED = all(shutil.which(tool, path=PATH) for tool in (os.environ.get("CXX", "c++"), "ninja"))
needs_compiler = pytest.mark.skipif(
    not COMPILED, reason="the second device needs a C++ compiler and ninja to be built"
)
# recurrent cells have kernels of their own on every accelerator, which ours lacks
OWN_KERNELS = {"lstm", "lstm-bidirectional", "gru", "lstm-cell-loop"}
DRAWN = {  # every door, each with a model that goes through much of it
    "relu-mlp": "every view,input regions,compression,conserved,bottleneck,rank,scan,what if",
    "language-model-tied": "profile with targets,theorems,assess,look,loss surface,loss line",
    "batchnorm-train": "curvature,landscape,compare,trial,layer rates,watch",
    "dropout": "profile,treat",
}
FEW = {
    "relu-mlp": "profile with targets,conserved,watch,scan",
    "batchnorm-train": "trial,curvature",
}
# numbers are drawn otherwise there, and rounded otherwise where a training goes on for long
DRAWN_ON_GPU = {k: v for k, v in DRAWN.items() if k != "dropout"} | {
    "batchnorm-train": DRAWN["batchnorm-train"].replace("layer rates,", ""),  # rough on purpose
    "lstm": "profile with targets,watch,bottleneck,assess,curvature",
    "gru": "profile with targets,watch,look",
    "lstm-bidirectional": "profile with targets",
}


def run(script, *words, timeout=600):
    """A script beside this one, or lines of one, in a process of its own."""
    written = ["-c", script] if "\n" in script else [str(HERE / script)]
    command = [sys.executable, *written, *map(str, words)]
    paths = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": PATH, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="session")
def twin(request, tmp_path_factory):
    """The folder of the device, built once for a source and a torch, and kept by pytest."""
    source = hashlib.sha256((HERE / "twin_device.cpp").read_bytes()).hexdigest()[:12]
    kept = request.config.cache.mkdir(f"twin-{source}-{torch.__version__}-{sys.version_info[1]}")
    if not (kept / "twin.so").exists():
        built = tmp_path_factory.mktemp("twin")
        run("twin_device.py", built)
        shutil.copy(built / "twin.so", fresh := kept / f"{os.getpid()}.so")
        fresh.replace(kept / "twin.so")
    return kept


def differences(twin, drawn):
    """Of each model, door and place; all of them were tried, in one process."""
    words = [word for model, doors in drawn.items() for word in (model, doors)]
    lines = [json.loads(line) for line in run("twin_doors.py", twin, *words).splitlines()]
    assert len(lines) == 2 * sum(len(doors.split(",")) for doors in drawn.values())
    return [line for line in lines if line["moved"] or line["apart"]]


@needs_compiler
@pytest.mark.parametrize("drawn", [FEW, pytest.param(DRAWN, marks=pytest.mark.slow)], ids=len)
def test_doors_give_the_same_on_a_second_device(twin, drawn):
    assert differences(twin, drawn) == []


def test_every_door_is_drawn():
    assert {d for doors in DRAWN.values() for d in doors.split(",")} == {*DOORS}


@pytest.mark.parametrize("door", some(d for d in DOORS if d != "what if"))
def test_doors_make_what_they_need_wherever_tensors_are_made_by_default(door):
    def found():
        net, x = MODELS["relu-mlp"]()
        y = targets_for(net, x)
        return lambda: DOORS[door](net, x, y)

    expected, again = found()(), found()
    with torch.device("meta"):
        assert parted(expected, again()) == []


@pytest.mark.parametrize("door", ["every view", "trial"])
def test_what_a_model_makes_lies_where_it_would(door):
    """Also behind modes of our own that hear of it."""
    places = set()

    class Making(torch.nn.Sequential):
        def forward(self, x):
            places.add(torch.tensor([[1.0]]).device.type)
            return super().forward(x)

    net, x = (
        Making(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)),
        torch.randn(8, 6),
    )
    y = targets_for(net, x)
    places.clear()
    with torch.device("meta"):
        DOORS[door](net, x, y)
    assert places == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_doors_give_the_same_on_a_gpu():
    assert differences("cuda", DRAWN_ON_GPU) == []


ROWS = """
import json, sys
from pathlib import Path
import torch, twin_device
from sigmascope_experiments import FIGURES

if sys.argv[1] != "cuda":
    twin_device.start(Path(sys.argv[1]))
there = torch.device("cuda" if sys.argv[1] == "cuda" else twin_device.NAME)
tried = {figure.row: figure for figure in FIGURES if figure.on_device}  # the last of each kind
for figure in FIGURES if sys.argv[2:] == ["all"] else tried.values():
    if figure.on_device:
        task = figure.tasks(figure.quick)[-1]
        task |= {k: v for k, v in (("samples", 48), ("epochs", 1)) if k in task}
        rows = [figure.row(task, None, **where) for where in ({}, {"device": there})]
        print(json.dumps([figure.name, json.loads(json.dumps(rows[0])) == rows[1], *rows]))
"""


@needs_compiler
@pytest.mark.parametrize(
    ("which", "count"),
    [("one of each kind", 5), pytest.param("all", 14, marks=pytest.mark.slow)],
)
def test_rows_of_figures_are_the_same_on_a_second_device(twin, which, count):
    rows = [json.loads(line) for line in run(ROWS, twin, which).splitlines()]
    assert len(rows) == count
    assert [name for name, same, *_ in rows if not same] == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_rows_of_figures_start_from_the_same_on_a_gpu():
    for _, _, here, there in map(json.loads, run(ROWS, "cuda").splitlines()):
        assert there.get("start") == pytest.approx(here.get("start"), rel=1e-2)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("model", sorted(set(MODELS) - OWN_KERNELS))
def test_every_door_gives_the_same_of_every_model(twin, model):
    assert differences(twin, {model: ",".join(DOORS)}) == []
