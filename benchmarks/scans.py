"""What a scan costs, against its limits, and whether it finds what is there.

python -m benchmarks.scans --rates            # CPU seconds per GB, beside dsyrk and eigvalsh
python -m benchmarks.scans --noise            # 400 matrices of noise: spikes and exponents flagged
python -m benchmarks.scans --large 70         # so many layers (8 GB): faults found, workers, memory
python -m benchmarks.scans --leading 70       # the same with leading values only
python -m benchmarks.scans --kills 50         # kill -9 at random times: the same bits at the end
python -m benchmarks.scans --paper            # hours and money for 70B and 671B, by the rate here
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks._checkpoints import written
from sigmascope.checkpoints import open_checkpoint
from sigmascope.core.store import Run
from sigmascope.diagnosis.checkpoints import scan_findings
from sigmascope.linalg.spectra import spectrum
from sigmascope.scanning import effort_of, memory_of, plan, rate, scan, work_of

LEADING = ("spectral norm", "Frobenius norm", "stable rank", "noise edge", "spikes")
BULK = (*LEADING, "noise level", "noise distance", "effective rank", "power-law exponent")


def cpu(work: Callable[[], Any]) -> float:
    """Processor seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def rates(layers: int = 9) -> dict[str, float]:
    """CPU seconds per GB of bf16 with sides of 2048 and 8192, on one thread."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), layers=layers, shards=2, faults=False)
        size = plan(folder).bytes / 1e9
        found = {"planning, seconds": cpu(lambda: plan(folder))}
        found["dsyrk + eigvalsh"] = cpu(lambda: _limit(folder)) / size
        found["linalg.spectrum"] = cpu(lambda: _spectra(folder)) / size
        full = cpu(lambda: scan(folder, quantities=BULK)) / size
        found["scan, all values, bulk, edge, exponent"] = full
        leading = cpu(lambda: scan(folder, quantities=LEADING, effort="leading")) / size
        found["scan, leading values, Frobenius norm, edge, spikes"] = leading
        found["scan, everything"] = cpu(lambda: scan(folder)) / size
        found["scan, everything, leading"] = cpu(lambda: scan(folder, effort="leading")) / size
    return found


def _limit(folder: str) -> None:
    """The least that all singular values cost: BLAS and LAPACK alone."""
    from scipy.linalg import blas

    for stored in open_checkpoint(folder).tensors:
        A = stored.read().double()
        tall = A if A.shape[0] >= A.shape[1] else A.mT.contiguous()
        torch.linalg.eigvalsh(torch.from_numpy(blas.dsyrk(1.0, tall.numpy().T, lower=1)))


def _spectra(folder: str) -> None:
    for stored in open_checkpoint(folder).tensors:
        spectrum(stored.read(), route="gram")


def noise(count: int = 400) -> dict[str, Any]:
    """How often something is flagged in matrices in which nothing is."""
    laws = {"uniform": _uniform, "normal": torch.randn, "sparse": _sparse, "t(5)": _heavy}
    shapes = (
        (64, 64),
        (32, 512),
        (128, 128),
        (384, 384),
        (100, 700),
        (1024, 256),
        (512, 768),
        (900, 900),
    )
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn)
    generator = torch.Generator().manual_seed(11)
    spikes = exponents = total = 0
    while total < count:
        for law in laws.values():
            shape, dtype = shapes[total % 8], dtypes[total // 8 % 4]
            A = (0.1 * law(*shape, generator=generator)).to(dtype).float()
            found = scan({"a.weight": A}, seed=total)
            spikes += found.series("spikes")[0].estimate.value > 0
            exponents += bool(found.series("power-law exponent"))
            total += 1
    return {"matrices": total, "with spikes": spikes, "with an exponent": exponents}


def _uniform(m: int, n: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(m, n, generator=generator) - 0.5


def _sparse(m: int, n: int, generator: torch.Generator) -> torch.Tensor:
    kept = torch.rand(m, n, generator=generator) < 0.05
    return torch.randn(m, n, generator=generator) * kept


def _heavy(m: int, n: int, generator: torch.Generator) -> torch.Tensor:
    chi = sum(torch.randn(m, n, generator=generator).square() for _ in range(5))
    return torch.randn(m, n, generator=generator) / (chi / 5).sqrt()


def large(layers: int, *, effort: str = "auto") -> dict[str, Any]:
    """A checkpoint of many GB: what is found of what was planted, seconds, memory."""
    more = ["--leading"] if effort == "leading" else []
    with tempfile.TemporaryDirectory() as folder:
        planted = written(Path(folder), layers=layers, shards=4, faults=True)
        result: dict[str, Any] = {"GB": plan(folder).bytes / 1e9, "planted": len(planted)}
        runs = []
        for name, options in WORKERS.items():
            runs.append(Path(folder) / f"{len(runs)}.run")
            words = ["scan", folder, *options, *more, "--run", str(runs[-1])]
            seconds, memory = _watched(words)
            result[name] = f"{seconds:.0f} s, {memory} MB the largest process"
        every = [sorted((r.record for r in Run(run).readings()), key=repr) for run in runs]
        result["same bits"] = all(one == every[0] for one in every)
        said = {f.name for f in scan_findings(scan(folder, effort=effort, run=runs[0]))}
        result["found"] = sorted(set(planted) & said)
        result["missed"] = sorted(set(planted) - said)
    return result


WORKERS = {
    "1 worker": ["--workers", "1"],
    "2 workers": ["--workers", "2"],
    "Ray, 2 workers": ["--workers", "2", "--ray", "local"],
}


def _watched(words: list[str]) -> tuple[float, int]:
    """Seconds of a command, and the largest peak among it and its children."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "sigmascope", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, *map(_peak, _family(process.pid)))
        time.sleep(0.2)
    return time.monotonic() - began, peak


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # it has just ended
            continue
        for child in children:
            yield from _family(int(child))


def _peak(pid: int) -> int:
    """MB, of processes that compute; those of Ray itself aside."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        name = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return 0
    found = next((line.split()[1] for line in lines if line.startswith("VmHWM")), "0")
    return 0 if "ray/" in name else int(found) // 1024


def kills(count: int) -> dict[str, Any]:
    """A scan is killed again and again and gone on with: what it says at the end."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        generator = torch.Generator().manual_seed(3)
        tensors = {
            f"layers.{i}.mlp.{part}.weight": torch.randn(400, 500 + i, generator=generator)
            for i in range(60)
            for part in ("up_proj", "gate_proj")
        }
        torch.save(tensors, place / "many.pt")
        words = ["scan", str(place / "many.pt"), "--json", str(place / "a.json")]
        subprocess.run(
            [sys.executable, "-m", "sigmascope", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        again = [*words[:3], str(place / "b.json"), "--run", str(place / "b.run")]
        killed = sum(_killed(again, place / "b.run") for _ in range(count))
        subprocess.run(
            [sys.executable, "-m", "sigmascope", *again],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        one, other = (json.loads((place / f"{x}.json").read_text()) for x in "ab")
        return {
            "kills": count,
            "while it ran": killed,
            "same bits": one["readings"] == other["readings"],
        }


def _killed(words: list[str], run: Path) -> bool:
    """Kill it some results after it began to write; whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sigmascope", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    size = run.stat().st_size if run.exists() else 0
    while process.poll() is None and (not run.exists() or run.stat().st_size <= size):
        time.sleep(0.01)
    time.sleep(random.expovariate(20.0))
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return running


ATTENTION = {"q": (8192, 8192), "k": (1024, 8192), "v": (1024, 8192), "o": (8192, 8192)}
LLAMA = [*ATTENTION.values(), *((28672, 8192),) * 2, (8192, 28672)] * 80 + [(128256, 8192)] * 2
LATENT = [(1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384)] * 61
DENSE = [(18432, 7168), (18432, 7168), (7168, 18432)] * 3
EXPERTS = [(2048, 7168), (2048, 7168), (7168, 2048)] * (257 * 58)
DEEPSEEK = [*LATENT, *DENSE, *EXPERTS, (129280, 7168), (129280, 7168)]
MACHINES = {"a machine of 64 cores": 64, "32 workers on Ray": 32}
PRICE = 0.05  # dollars for a core and an hour, about what clouds ask


def paper() -> dict[str, str]:
    """What two checkpoints of public models would take, from their shapes and the rate here."""
    models = {"70B (bfloat16)": (LLAMA, 2), "671B (float8)": (DEEPSEEK, 1)}
    found = {"rate, multiplications a second": f"{rate():.3g}"}
    for name, (shapes, width) in models.items():
        read = width * sum(m * n for m, n in shapes)
        for effort in ("leading", "auto", "full"):
            chosen = [effort_of(shape, effort) for shape in shapes]
            work = sum(map(work_of, shapes, chosen)) / rate()
            memory = max(map(memory_of, shapes, [width * m * n for m, n in shapes], chosen))
            hours = "; ".join(f"{work / n / 3600:.2g} h on {on}" for on, n in MACHINES.items())
            found[f"{name}, {effort}"] = (
                f"{len(shapes)} matrices, {read / 1e9:.0f} GB, {work / 3600:.3g} core hours: "
                f"{hours}; ${PRICE * work / 3600:.2g}; {memory / 1e9:.2g} GB a process"
            )
    return found


def main() -> None:
    """Measure what is asked for, print it, and close with a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rates", "noise", "paper"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--large", type=int, default=0, metavar="LAYERS")
    parser.add_argument("--leading", type=int, default=0, metavar="LAYERS")
    parser.add_argument("--kills", type=int, default=0, metavar="TIMES")
    asked = parser.parse_args()
    result: dict[str, Any] = {}
    for name, of in (("rates", rates), ("noise", noise), ("paper", paper)):
        if getattr(asked, name):
            result[name] = of()
    leading = partial(large, effort="leading")
    for name, of in (("large", large), ("leading", leading), ("kills", kills)):
        if getattr(asked, name):
            result[name] = of(getattr(asked, name))
    for name, table in result.items():
        print(f"\n{name}\n\n| what | value |\n|---|---|")
        for what, value in table.items():
            print(f"| {what} | {value if not isinstance(value, float) else f'{value:.3g}'} |")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
