"""Scripts of several processes, in one: the others are taken to do as the one that is watched.

What a launcher tells its first process is put into the environment, and a function that is given to
processes of its own is called here. A group of N processes is then one in which each holds what
this one holds: a sum over it is N times a number, a mean is the number, what is gathered is N
copies. So wrappers that average gradients, loops that divide by the number of processes and
samplers that take a part of the data do as they do among N. What the others would do otherwise is
not seen here; it is, by running the script again in the place of another one.
"""

import contextlib
import functools
import inspect
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import popen_fork, process
from multiprocessing.process import BaseProcess
from typing import Any, cast

import torch
from torch import Tensor, distributed, multiprocessing

from sigmascope.diagnosis.scripts.observer import Stopped, is_own
from sigmascope.diagnosis.scripts.seen import ScriptRun

BACKEND = "as_one"
PAIRED = "one that takes or gives what is meant for it alone (`send`, `recv`)"
ASKING, ALLOWED = 0.1, 1.0  # seconds: how often a process asks, and how long this one may wait
WANTED = frozenset(("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


class NeedsOthers(RuntimeError):
    """What one process alone cannot do: talk to another one that does something else."""


def tell_as_launcher(rank: int, count: int) -> None:
    """Put into the environment what `torchrun` tells a process that it starts.

    Args:
        rank: Of this one.
        count: How many there are.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), rank) | {"GROUP_RANK": 0}
    told |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), count)
    told |= {"GROUP_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in told.items()})


@contextlib.contextmanager
def as_one(
    run: ScriptRun,
    rank: int,
    *,
    alone: bool = False,
    inside: int = 0,
    objects: Sequence[bytes] = (),
    unwatched: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Let what a script asks of several processes be done by this one.

    Of functions that it gives to processes, all are really run, until one passes back: that is told
    to this process, which is then stopped (`run.hands`). Run again with its number (`inside`), that
    function is called here; others of its kind stand aside while it trains, and are really
    run behind it if they know of no group, for somebody may wait for what they find.

    Args:
        run: Takes how many there are, and how many numbers they exchange.
        rank: Of the process in whose place the script is run, where it starts them itself.
        alone: Whether it is to be the only process of its groups.
        inside: Which of the functions that are given to `Process.start` is called here, from 1 on;
            0 for none.
        objects: What the first process broadcast that is no tensor, in order, where this one is
            another.
        unwatched: Called in processes that are really started, which nobody watches.
    """
    started = _called_here(run, rank, alone=alone, inside=inside, unwatched=unwatched)
    with started, _asked_of_launchers(run), _grouped(run, rank, alone=alone, objects=objects):
        yield


@contextlib.contextmanager
def _instead(*replaced: tuple[Any, str, Any]) -> Iterator[None]:
    """Something else in the places of attributes."""
    with contextlib.ExitStack() as undo:
        for owner, name, function in replaced:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


def _begun(run: ScriptRun) -> bool:
    """Whether this process trains, or is about to."""
    return bool(run.backwards) or (distributed.is_available() and distributed.is_initialized())


@contextlib.contextmanager
def _called_here(
    run: ScriptRun, rank: int, *, alone: bool, inside: int, unwatched: Callable[[], None]
) -> Iterator[None]:
    """Functions that are given to processes, called in this one."""
    start, bootstrap, own = BaseProcess.start, vars(BaseProcess)["_bootstrap"], list[BaseProcess]()
    functions, here = list[Any](), os.getpid()  # those of processes of its own, and this process
    asks, answers = os.pipe(), os.pipe()  # of a process that trains, and what it is to do
    since, over = list[float](), threading.Event()  # when one asked, and whether the script ended

    def forked(self: BaseProcess) -> None:
        # what is forked knows what this one does, and need not load anything
        self._Popen = popen_fork.Popen  # pyright: ignore[reportAttributeAccessIssue]
        after = vars(BaseProcess)["_after_fork"].__func__  # which those that are spawned leave out
        vars(self)["_after_fork"] = after
        start(self)

    def started(self: BaseProcess) -> None:
        function = getattr(self, "_target", None) or type(self).run
        if os.getpid() != here or not is_own(_file_of(function)):
            return start(self)
        own.append(self)
        functions.append(function)
        alike = 0 < inside <= len(own) and functions[inside - 1] == function
        called = alike and not _begun(run) and len(own) >= inside + rank
        if called:
            before = process._current_process  # pyright: ignore[reportAttributeAccessIssue]
            process._current_process = self  # pyright: ignore[reportAttributeAccessIssue]
            try:
                with contextlib.suppress(SystemExit):
                    self.run()
            finally:
                process._current_process = before  # pyright: ignore[reportAttributeAccessIssue]
        if called or (alike and (run.grouped or not _begun(run))):
            # whoever waits for it finds it ended
            self.run, self._args, self._kwargs = os.getpid, (), {}  # pyright: ignore
        return forked(self)

    def bootstrapped(self: BaseProcess, *args: Any, **named: Any) -> Any:
        unwatched()
        number = own.index(self) + 1 if self in own else 0
        backward = torch.autograd.backward

        def heard(*args: Any, **named: Any) -> Any:
            torch.autograd.backward = backward
            os.write(asks[1], bytes([min(number, 255)]))
            while not select.select([answers[0]], [], [], ASKING)[0]:
                os.kill(here, signal.SIGURG)
            return backward(*args, **named)

        if not inside and os.getppid() == here:
            torch.autograd.backward = heard
        return bootstrap(self, *args, **named)

    def asked(*_: Any) -> None:
        if os.getpid() != here or run.hands is not None:
            return
        if not select.select([asks[0]], [], [], 0)[0]:
            return
        since.append(time.monotonic())
        if _begun(run):  # it trains itself, and what others do is their business
            os.write(answers[1], b"." * len(os.read(asks[0], 255)))
        elif since[-1] - since[0] > ALLOWED and not over.is_set():
            number = os.read(asks[0], 1)[0]
            run.hands = functions.index(functions[number - 1]) + 1 if number else 0
            raise Stopped

    def called(
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        **_: Any,
    ) -> Any:
        run.processes = 1 if alone else max(run.processes, nprocs)
        left = list[BaseProcess]()
        for at in range(min(rank, nprocs - 1), nprocs):
            if not _begun(run):  # and what only prepares is done for all
                fn(at, *args)
            elif not run.grouped:  # somebody may wait for what they find
                left.append(
                    multiprocessing.get_context("fork").Process(target=fn, args=(at, *args))
                )
                start(left[-1])
        done = _Done(left)
        return done if not join else done.join() and None

    with contextlib.ExitStack() as undo:
        for end in (*asks, *answers):
            undo.callback(os.close, end)
        undo.callback(signal.signal, signal.SIGURG, signal.signal(signal.SIGURG, asked))
        instead = _instead(
            (BaseProcess, "start", started),
            (BaseProcess, "_bootstrap", bootstrapped),
            (multiprocessing, "spawn", called),
            (multiprocessing, "start_processes", called),
        )
        undo.enter_context(instead)
        undo.callback(over.set)
        yield


@contextlib.contextmanager
def _asked_of_launchers(run: ScriptRun) -> Iterator[None]:
    """What a script looks for in the environment that a launcher would have put there."""
    read = type(os.environ).__getitem__

    def got(self: Any, name: str) -> str:
        try:
            return read(self, name)
        except KeyError:
            run.wanted |= name in WANTED
            raise

    with _instead((type(os.environ), "__getitem__", got)):
        yield


@contextlib.contextmanager
def _grouped(run: ScriptRun, rank: int, *, alone: bool, objects: Sequence[bytes]) -> Iterator[None]:
    """Groups of processes for which this one stands."""
    if not distributed.is_available():
        yield
        return
    from torch.distributed.launcher.api import elastic_launch

    own_objects, handed = distributed.broadcast_object_list, [*objects]
    own_barrier = distributed.monitored_barrier

    def launched(self: Any, *words: Any) -> dict[int, Any]:
        count = 1 if alone else self._config.max_nodes * self._config.nproc_per_node
        tell_as_launcher(min(rank, count - 1), count)
        return {rank: self._entrypoint(*words)}

    def given(listed: Any, src: int | None = 0, *rest: Any, **named: Any) -> None:
        if distributed.get_backend() != BACKEND:
            own_objects(listed, src, *rest, **named)
        elif src == distributed.get_rank():
            run.objects.append(pickle.dumps(listed))
        elif handed:
            listed[:] = pickle.loads(handed.pop(0))
        else:
            raise NeedsOthers("objects that another process broadcasts")

    def monitored(group: Any = None, *rest: Any, **named: Any) -> None:
        if distributed.get_backend(group) != BACKEND:  # of which it knows but one
            own_barrier(group, *rest, **named)

    grouped = functools.partial(_group, run, alone, distributed.init_process_group)
    with _instead(
        (elastic_launch, "__call__", launched),
        (distributed, "broadcast_object_list", given),
        (distributed, "monitored_barrier", monitored),
        (distributed, "init_process_group", grouped),
        (distributed.distributed_c10d, "init_process_group", grouped),
        (distributed.device_mesh, "init_process_group", grouped),
    ):
        yield


class _Done:
    """What `torch.multiprocessing.spawn(..., join=False)` gives.

    Args:
        processes: Those that were really started.
    """

    def __init__(self, processes: Sequence[BaseProcess] = ()) -> None:
        self.processes = processes

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        for one in self.processes:
            one.join(timeout)
        return True

    def pids(self) -> list[int]:
        return []


def _file_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else code.co_filename


def _group(run: ScriptRun, alone: bool, own: Callable[..., None], *args: Any, **named: Any) -> None:
    """A group of the size that is asked for, of which this process stands for all."""
    asked = inspect.signature(own).bind(*args, **named).arguments
    told = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "0")
    size, rank = (
        asked.get(name, -1) if asked.get(name, -1) >= 0 else int(word)
        for name, word in zip(("world_size", "rank"), told, strict=True)
    )
    if size <= 1:
        return own(*args, **named)
    from torch._C._distributed_c10d import HashStore

    store = HashStore()
    if alone:
        return own(asked.get("backend"), rank=0, world_size=1, store=store)
    run.processes, run.rank, run.grouped = max(run.processes, size), rank, True
    make = functools.partial(_group_of_alike(), run)
    distributed.Backend.register_backend(
        BACKEND, lambda _, rank, size, __: make(rank, size), devices=["cpu", "cuda"]
    )
    return own(BACKEND, rank=rank, world_size=size, store=store)


@functools.cache
def _group_of_alike() -> Callable[[ScriptRun, int, int], Any]:
    """The class of a group of processes that all hold what this one holds.

    It is made when it is asked for: there are builds of torch without its base. Names of newer
    releases of torch stand beside those of older ones.
    """
    from torch._C import _distributed_c10d as c10d

    work_of = vars(c10d)["_create_work_from_future"]  # which its types do not tell of
    ops, base = distributed.ReduceOp, cast(Any, distributed.ProcessGroup)  # of many overloads

    class Alike(base):
        def __init__(self, run: ScriptRun, rank: int, size: int) -> None:
            super().__init__(rank, size)
            self._run, self._at, self._of = run, rank, size

        def getBackendName(self) -> str:
            return BACKEND

        @property
        def group_name(self) -> str:
            return distributed.distributed_c10d._world.pg_names[self]

        def _done(self, result: Any, read: Sequence[Tensor] = ()) -> Any:
            """What is waited for, with nothing to wait for; what was read is counted."""
            frame = sys._getframe()
            while frame is not None:
                if frame.f_globals.get("__name__", "").startswith("torch.distributed.fsdp"):
                    raise NeedsOthers("shards of weights that others hold")
                frame = frame.f_back
            count = sum(t.numel() for t in read if t.is_floating_point())
            if self._run.backwards:
                self._run.exchanged += count
            else:
                self._run.told += count
            future = torch.futures.Future()
            future.set_result(result)
            return work_of(future)

        @torch.no_grad()
        def _reduce(self, given: Tensor, op: Any) -> Tensor:
            op = getattr(op, "op", op)  # of a kind with a factor of its own
            if op == ops.SUM:
                return given * self._of
            if op == ops.PRODUCT:
                return given**self._of
            if op == ops.BXOR:
                return given if self._of % 2 else torch.zeros_like(given)
            if op in (ops.AVG, ops.MIN, ops.MAX, ops.BAND, ops.BOR):
                return given
            raise NeedsOthers(f"a reduction by {op}")

        def allreduce(self, tensors: Any, opts: Any = None) -> Any:
            for t in tensors:
                t.detach().copy_(self._reduce(t, opts.reduceOp if opts is not None else ops.SUM))
            return self._done(tensors, tensors)

        reduce = allreduce_coalesced = allreduce

        def broadcast(self, tensors: Any, opts: Any = None) -> Any:
            before = self._run.exchanged
            done = self._done(tensors, tensors)
            self._run.broadcast += self._run.exchanged - before
            return done

        def barrier(self, opts: Any = None) -> Any:
            return self._done([])

        def allgather(self, outs: Any, given: Any, opts: Any = None) -> Any:
            for copies, t in zip(outs, given, strict=True):
                for copy in copies:
                    copy.detach().copy_(t)
            return self._done(outs, given)

        def gather(self, outs: Any, given: Any, opts: Any = None) -> Any:
            return self.allgather(outs, given if outs else [])

        def allgather_coalesced(self, outs: Any, given: Any, opts: Any = None) -> Any:
            return self.allgather([[*copies] for copies in zip(*outs, strict=True)], given)

        def all_gather_single(self, out: Any, given: Any, opts: Any = None) -> Any:
            own = given.detach().reshape(1, -1).clone()  # it may lie in its place within `out`
            out.detach().view(self._of, -1).copy_(own)
            return self._done([out], [given])

        _allgather_base = all_gather_single

        def all_gather_single_coalesced(self, outs: Any, given: Any, opts: Any = None) -> Any:
            for out, t in zip(outs, given, strict=True):
                self.all_gather_single(out, t)
            return self._done(outs)

        allgather_into_tensor_coalesced = all_gather_single_coalesced

        def reduce_scatter(self, outs: Any, given: Any, opts: Any = None) -> Any:
            op = opts.reduceOp if opts is not None else ops.SUM
            for out, parts in zip(outs, given, strict=True):
                out.detach().copy_(self._reduce(parts[self._at], op).reshape(out.shape))
            return self._done(outs, [t for parts in given for t in parts])

        def reduce_scatter_single(self, out: Any, given: Any, opts: Any = None) -> Any:
            return self.reduce_scatter([out], [given.chunk(self._of)], opts)

        _reduce_scatter_base = reduce_scatter_single

        def reduce_scatter_single_coalesced(self, outs: Any, given: Any, opts: Any = None) -> Any:
            return self.reduce_scatter(outs, [t.chunk(self._of) for t in given], opts)

        reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

        def scatter(self, outs: Any, given: Any, opts: Any = None) -> Any:
            if not given:
                raise NeedsOthers("what another process scatters")
            outs[0].detach().copy_(given[0][self._at])
            return self._done(outs, given[0])

        def alltoall(self, outs: Any, given: Any, opts: Any = None) -> Any:
            for out in outs:
                out.detach().copy_(given[self._at])
            return self._done(outs, given)

        def alltoall_base(self, out: Any, given: Any, into: Any, of: Any, opts: Any = None) -> Any:
            parts = given.split(of) if of else given.chunk(self._of)
            own = [parts[self._at]] * self._of
            if sum(map(len, own)) != len(out):
                raise NeedsOthers("parts of other sizes than its own")
            out.detach().copy_(torch.cat(own))
            return self._done([out], [given])

        all_to_all_single = alltoall_base

        def send(self, *_: Any, **__: Any) -> Any:
            raise NeedsOthers(PAIRED)

        recv = recv_anysource = send

    return Alike
