"""Peak memory of torch's CPU allocator while a function runs."""

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object]) -> int:
    """The most that was allocated at once above what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    events = recorded.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = most = 0
    for _, size in changes:
        now += size
        most = max(most, now)
    return most
