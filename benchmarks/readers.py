"""Readers of checkpoints: ours and the libraries', by memory, CPU time and hostile files.

python -m benchmarks.readers            # ten files of 300 MB, every tensor of each read by both
python -m benchmarks.readers --hostile  # small files that mean harm, read by both
"""

import argparse
import io
import json
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

BLOCKS = ("F16", "Q4_0", "Q8_0", "Q4_K", "Q6_K")
LIMIT = 10  # seconds of CPU that a hostile file may take here
SIDE, MATRICES = 2048, 18


def write(folder: Path) -> dict[str, Path]:
    """One checkpoint in every format."""
    import gguf
    from safetensors.torch import save_file
    from torch.distributed import checkpoint as dcp

    warnings.simplefilter("ignore")
    draw = torch.Generator().manual_seed(0)
    state = {f"{n}.weight": torch.randn(SIDE, SIDE, generator=draw) for n in range(MATRICES)}
    files = {"safetensors": folder / "a.safetensors", "torch.save": folder / "a.pt"}
    files |= {"torch before 1.6": folder / "old.pt", "distributed": folder / "dcp"}
    save_file(state, files["safetensors"])
    torch.save(state, files["torch.save"])
    torch.save(state, files["torch before 1.6"], _use_new_zipfile_serialization=False)
    dcp.save(state, checkpoint_id=files["distributed"], no_dist=True)
    rng = np.random.default_rng(0)
    for name in BLOCKS:
        kind = gguf.GGMLQuantizationType[name]
        numbers, size = gguf.GGML_QUANT_SIZES[kind]
        files[name] = folder / f"{name}.gguf"
        writer = gguf.GGUFWriter(files[name], "llama")
        row = 2 * SIDE // numbers * size
        for n in range(300_000_000 // (SIDE * row)):
            data = rng.integers(0, 64, (SIDE, row), dtype=np.uint8)
            array = data.view(np.float16) if name == "F16" else data
            writer.add_tensor(f"{n}.weight", array, raw_dtype=kind)
        for end in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
            getattr(writer, f"write_{end}")()
        writer.close()
    return files


def ours(path: Path) -> Iterator[Any]:
    """Every tensor, by `open_checkpoint`."""
    from sigmascope.checkpoints import open_checkpoint

    for stored in open_checkpoint(path).tensors:
        yield stored.read()


def theirs(path: Path) -> Iterator[Any]:
    """Every tensor, by the library of the format."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield file.get_slice(name)[:].clone()
    elif path.suffix == ".gguf":
        import gguf

        for tensor in gguf.GGUFReader(path).tensors:
            yield gguf.dequantize(tensor.data, tensor.tensor_type)
    elif path.is_dir():
        from torch.distributed import checkpoint as dcp

        reader = dcp.FileSystemReader(path)
        for name, entry in reader.read_metadata().state_dict_metadata.items():
            tensor = {name: torch.empty(entry.size, dtype=entry.properties.dtype)}
            dcp.load(tensor, storage_reader=dcp.FileSystemReader(path), no_dist=True)
            yield tensor[name]
    else:
        archive = zipfile.is_zipfile(path)
        for tensor in torch.load(path, weights_only=True, mmap=archive).values():
            yield tensor.clone()


def resident() -> dict[str, int]:
    """MB of this process: of its own, and of files that are mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {k: int(line.split()[1]) // 1024 for line in lines
            for k in ("RssAnon", "RssFile") if line.startswith(k)}  # fmt: skip


def read(path: Path, reader: Callable[[Path], Iterator[Any]]) -> dict[str, float]:
    """Peak memory beyond that of a process that has the libraries, and CPU seconds."""
    import gguf  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch.distributed.checkpoint

    import sigmascope.checkpoints  # noqa: F401

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    before, peak, done = resident(), {"RssAnon": 0, "RssFile": 0}, threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            now = resident()
            peak.update({k: max(peak[k], now[k] - before[k]) for k in peak})

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    try:
        for tensor in reader(path):
            del tensor
    finally:
        took = time.process_time() - began
        done.set()
        watcher.join()
    return {"own MB": peak["RssAnon"], "mapped MB": peak["RssFile"], "CPU s": round(took, 2)}


def hostile(folder: Path) -> dict[str, Path]:
    """A key of tuples in tuples; a header that declares 2^40 numbers; a long vocabulary."""
    import gguf

    files = {n: folder / f for n, f in (("nested key", "a.pt"), ("2^40 numbers", "a.gguf"),
                                        ("256 000 words", "words.gguf"))}  # fmt: skip
    key = b"".join(b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(40))
    with zipfile.ZipFile(files["nested key"], "w") as archive:
        archive.writestr("a/version", "3")
        archive.writestr("a/data.pkl", b"\x80\x02})q\x00" + key + b"K\x01s.")
    buffer = io.BytesIO(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    buffer.seek(0, 2)
    buffer.write(struct.pack("<Q1sIIQ", 1, b"a", 9, 0, 1 << 40) + bytes(200))
    files["2^40 numbers"].write_bytes(buffer.getvalue())
    writer = gguf.GGUFWriter(files["256 000 words"], "llama")
    writer.add_array("tokenizer.ggml.tokens", [f"word{n}" for n in range(256_000)])
    writer.add_array("tokenizer.ggml.scores", [float(n) for n in range(256_000)])
    writer.add_tensor("w", np.zeros((4, 32), np.float32))
    for end in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
        getattr(writer, f"write_{end}")()
    writer.close()
    return files


def main() -> None:
    """A line for each file and reader, each read in a process of its own."""
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--hostile", action="store_true")
    ask.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = ask.parse_args()
    readers = {f.__name__: f for f in (ours, theirs)}
    if given.read:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        print(json.dumps(read(Path(given.read[1]), readers[given.read[0]])))
        return
    with tempfile.TemporaryDirectory() as made:
        files = (hostile if given.hostile else write)(Path(made))
        for name, path in files.items():
            for reader in readers:
                line = [sys.executable, "-m", "benchmarks.readers", "--read", reader, str(path)]
                ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
                last = (ran.stdout or ran.stderr or f"ended by signal {-ran.returncode}").strip()
                print(f"{name:18} {reader:8} {last.splitlines()[-1][:160]}", flush=True)


if __name__ == "__main__":
    main()
