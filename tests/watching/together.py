"""Work shared by several gloo processes, each of one thread, none of which may hang a test."""

import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
from torch import multiprocessing as mp

PATIENCE = 40  # seconds, of a collective
# imported once, by a process of which the others are forks: a fresh one takes seconds for them;
# the last two are loaded late, by the first step and by the first look, and so in every fork
IMPORTED = ["pytest", "torch.distributed.fsdp", "torch.distributed.tensor", "sigmascope.watching"]
IMPORTED += ["hypothesis", "torch._dynamo", "scipy.optimize"]


def together(count, work, *args, seconds=240):
    """What `work(rank, *args)` returns in each of `count` processes of one group.

    Raises:
        AssertionError: If one fails, or if any has not ended in time; all are ended then.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        each = [
            context.Process(target=_one, args=(rank, count, folder, work, args), daemon=True)
            for rank in range(count)
        ]
        for process in each:
            process.start()
        deadline = time.monotonic() + seconds
        for process in each:
            process.join(max(deadline - time.monotonic(), 0))
        late = [rank for rank, process in enumerate(each) if process.is_alive()]
        for process in each:
            process.kill()
            process.join()
        assert not late, f"processes {late} have not ended in {seconds} seconds"
        codes = [process.exitcode for process in each]
        assert not any(codes), f"ended with {codes}"
        return [
            torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(count)
        ]


def _one(rank, count, folder, work, args):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=PATIENCE),
    )
    found = work(rank, *args)
    torch.save(found, Path(folder) / f"{rank}.pt")
    os._exit(0)  # without taking leave of a process that may be gone
