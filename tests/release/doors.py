"""Keep what the doors say, and hold a later state of the house against it.

python -m tests.release.doors keep FOLDER [--only zoo programs scans watches figures]
python -m tests.release.doors compare FOLDER OTHER      # ends with 1 where something differs

Every result is a text file: JSON, what is printed and findings of the zoo, without and with a loss;
findings in order of the programs beside the data; scans of one checkpoint in every format; two
watched trainings; figures at quick size. All of one machine and one version of torch: elsewhere the
last digits differ.
"""

import argparse
import difflib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from odd_zoo import EVERY  # noqa: E402
from test_left_as_found import build, loss, process_settings, put_back  # noqa: E402
from watching.made import at_leisure, stack  # noqa: E402

import sigmascope as ss  # noqa: E402
from sigmascope.core.encoding import encoded  # noqa: E402

Kept = Iterator[tuple[str, str]]
LINES = 12  # of a difference that are shown
TIMED = re.compile(r"""\bin [\d.]+ (milli)?seconds?|seconds"?:? "?[\d.e-]+"?""")


def _plain(form: Any) -> str:
    return json.dumps(form, indent=1, ensure_ascii=False, default=str) + "\n"


def _said(what: Callable[[], str]) -> str:
    """What it says; what it raises is a word of it too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return what()
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}\n"


def _profiled(name: str, taught: bool) -> str:
    state = process_settings()
    try:
        torch.manual_seed(0)  # of models that draw from it
        np.random.seed(0)
        random.seed(0)
        net, x, y = build(name)
        known = {"targets": y, "loss": loss} if taught else {}
        profile = ss.profile(net, x, **known)
        return _plain(ss.report.json_form(profile)) + ss.text(profile)
    finally:
        put_back(state)


def zoo() -> Kept:
    """Every model, by itself and with a loss."""
    for name in EVERY:
        for taught in (False, True):
            path = f"{name.replace('/', '_')}{'-taught' if taught else ''}"
            yield path, _said(lambda n=name, t=taught: _profiled(n, t))


def _diagnosed(program: Any, **options: Any) -> str:
    found = ss.diagnose(program, budget=None, **options)
    return _plain(ss.report.json_form(found)) + ss.text(found)


def programs() -> Kept:
    """Real faulty programs and their patches, and those that were written to be faulty."""
    from benchmarks import real_faults as real

    kit, cases = real._rooms()
    for case in cases.CASES:
        for kind in ("bug", "fix"):
            plan = getattr(case, kind)

            def told(plan: Any = plan, case: Any = case) -> str:
                X, Y = kit.prepared(plan, case.data())
                program = real.as_program(plan, plan.model(0), X, Y)
                return _diagnosed(program, samples=real.size_of(X))

            yield f"{case.name}-{kind}", _said(told)


def _checkpoint(folder: Path) -> dict[str, Path]:
    """One small model in every format that can be written here."""
    from safetensors.torch import save_file
    from torch.distributed import checkpoint as dcp

    from tests.scanning.checkpoints import SMALL

    files = {"safetensors": folder / "small.safetensors", "torch": folder / "small.pt",
             "legacy": folder / "legacy.pt", "shards": folder / "shards",
             "distributed": folder / "dcp"}  # fmt: skip
    save_file(SMALL, files["safetensors"])
    torch.save(SMALL, files["torch"])
    torch.save(SMALL, files["legacy"], _use_new_zipfile_serialization=False)
    files["shards"].mkdir()
    names = [*SMALL]
    index = {}
    for part in range(2):
        of = {n: SMALL[n] for n in names[part::2]}
        file = f"model-{part + 1:05d}-of-00002.safetensors"
        index |= dict.fromkeys(of, file)
        save_file(of, files["shards"] / file)
    whole = {"metadata": {}, "weight_map": index}
    (files["shards"] / "model.safetensors.index.json").write_text(json.dumps(whole))
    dcp.save(dict(SMALL), checkpoint_id=files["distributed"], no_dist=True)
    _quantised(folder, files)
    return files


def _quantised(folder: Path, files: dict[str, Path]) -> None:
    import numpy as np
    from gguf import GGMLQuantizationType as Kind, GGUFWriter
    from gguf.quants import quantize
    from safetensors.torch import save_file

    from tests.checkpoints.test_quantization import awq, four_bits, gptq

    draw = torch.Generator().manual_seed(5)
    files["gguf"] = folder / "small.gguf"
    writer = GGUFWriter(files["gguf"], "llama")
    for kind in ("F32", "F16", "Q8_0", "Q4_0", "Q5_1"):
        A = torch.randn(24, 64, generator=draw).numpy().astype(np.float32)
        of = Kind[kind]
        writer.add_tensor(f"blk.{kind}.weight", quantize(A, of), raw_dtype=of)
    for end in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
        getattr(writer, f"write_{end}")()
    writer.close()
    for name, (state, _), settings in (
        ("gptq", gptq(32, 64), {"quant_method": "gptq", "bits": 4}),
        ("awq", awq(32, 64), {"quant_method": "awq", "bits": 4}),
        ("four-bits", four_bits(32, 64), {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    ):
        files[name] = folder / name
        files[name].mkdir()
        save_file(state, files[name] / "model.safetensors")
        text = json.dumps({"quantization_config": settings})
        (files[name] / "config.json").write_text(text)


def scans() -> Kept:
    """One checkpoint in every format, and one against another."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = _checkpoint(folder)
        for name, path in files.items():
            yield name, _said(lambda p=path: _command(["scan", str(p), "--json=-"], folder))
            yield f"{name}-text", _said(lambda p=path: _command(["scan", str(p)], folder))
        both = ["scan", str(files["safetensors"]), "--against", str(files["torch"])]
        yield "against", _said(lambda: _command(both, folder))


def _command(words: list[str], folder: Path) -> str:
    """What a command prints, without the folder and the seconds."""
    line = [sys.executable, "-W", "ignore", "-m", "sigmascope", *words]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder)
    return f"{ran.stdout}{ran.stderr}({ran.returncode})\n".replace(str(folder), "FOLDER")


def watches() -> Kept:
    """Two trainings that are the same to the last bit: one that goes well, one whose rate jumps."""
    for name, jump in (("well", 1.0), ("jump", 300.0)):
        with tempfile.TemporaryDirectory() as made:
            file = Path(made) / "run.sigma"
            told = _trained(file, jump)
            with ss.Run(file, write=False) as run:
                lines = [f"{row.step} {encoded(row.record)}" for row in run.readings()]
            yield name, "\n".join((*told, *lines)) + "\n"


def _trained(file: Path, jump: float) -> list[str]:
    torch.manual_seed(0)
    net = stack(16, 32, 32, 4)
    by = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(256, 16, generator=draw)
    y = (x @ torch.randn(16, 4, generator=draw)).argmax(1)
    with at_leisure(net, by, run=file) as watching:
        for step in range(300):
            if step == 200:
                by.param_groups[0]["lr"] *= jump
            at = torch.randint(256, (32,), generator=draw)
            value = torch.nn.functional.cross_entropy(net(x[at]), y[at])
            by.zero_grad()
            value.backward()
            by.step()
            watching.step(value)
        return [f"{a.name} {a.severity} {a.site} {a.says}" for a in watching.alarms]


def figures() -> Kept:
    """Tables of every figure at quick size."""
    with tempfile.TemporaryDirectory() as made:
        code = _command(["reproduce", "--all", "--quick", "--out", made], Path(made))
        yield "output", code.splitlines()[-1]
        for file in sorted(Path(made).rglob("*.csv")):
            yield str(file.relative_to(made)).replace("/", "_"), file.read_text()


PARTS: dict[str, Callable[[], Kept]] = {
    f.__name__: f for f in (zoo, programs, scans, watches, figures)
}


def keep(folder: Path, parts: list[str]) -> None:
    """Write what every door says under a folder."""
    for part in parts:
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
        for name, text in PARTS[part]():
            (folder / part / f"{name}.txt").write_text(text, encoding="utf-8")
        print(part, len([*(folder / part).iterdir()]), "kept", flush=True)


def compare(old: Path, new: Path) -> int:
    """Print what differs; how many do."""
    paths = lambda of: {p.relative_to(of) for p in of.rglob("*.txt")}
    parts = {p.parts[0] for p in paths(new)}  # what was kept anew
    differing = 0
    for path in sorted(p for p in paths(old) | paths(new) if p.parts[0] in parts):
        texts = [
            TIMED.sub("SECONDS", (of / path).read_text()) if (of / path).exists() else ""
            for of in (old, new)
        ]
        if texts[0] != texts[1]:
            differing += 1
            lines = difflib.unified_diff(*(t.splitlines() for t in texts), n=0, lineterm="")
            shown = [line[:200] for line in lines if not line.startswith(("---", "+++", "@@"))]
            print(f"{path}: {len(shown)} lines", *shown[:LINES], sep="\n  ")
    print(f"{differing} of {len(paths(old))} differ")
    return differing


def main() -> int:
    """Keep, or compare."""
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    does = ask.add_subparsers(dest="does", required=True)
    kept = does.add_parser("keep")
    kept.add_argument("folder", type=Path)
    kept.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    held = does.add_parser("compare")
    held.add_argument("old", type=Path)
    held.add_argument("new", type=Path)
    given = ask.parse_args()
    torch.set_num_threads(1)
    if given.does == "keep":
        keep(given.folder, given.only)
        return 0
    return min(compare(given.old, given.new), 1)


if __name__ == "__main__":
    sys.exit(main())
