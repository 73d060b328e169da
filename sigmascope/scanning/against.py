"""Two checkpoints side by side: which matrices have a counterpart."""

from collections.abc import Sequence
from dataclasses import replace

from sigmascope.records import Skipped
from sigmascope.scanning.costs import work_of
from sigmascope.scanning.merges import TIMES, merges
from sigmascope.scanning.planning import Settings, Work, planned, worked_out
from sigmascope.scanning.tasks import Pair, Product, Task
from sigmascope.sources.stored import open_checkpoint

CHANGES = frozenset(
    {
        "relative change", "best scale", "turned change", "change norm", "change stable rank",
        "change spikes", "largest angle", "intruders",
    }
)  # fmt: skip


def versions(source: object, other: object, settings: Settings, *, workers: int = 1) -> Work:
    """What is to be done to say how a checkpoint moved.

    Args:
        source: The first version.
        other: The second version.
        settings: What is asked.
        workers: Processes that share the work.

    Raises:
        Refusal: If one cannot be opened.
    """
    first = open_checkpoint(source)  # pyright: ignore[reportArgumentType] (it says what it takes)
    second = open_checkpoint(other)  # pyright: ignore[reportArgumentType]
    quiet = replace(settings, wanted=frozenset())
    one, two = worked_out(first, quiet), worked_out(second, quiet)
    changes = [task for task in two.tasks if isinstance(task.cut, Product)]
    if changes:
        pairs, skipped = merges(first, changes, settings.wanted & CHANGES)
    else:
        pairs, skipped = _matched(one.tasks, two.tasks, settings)
    known = {s.site for s in one.plan.skipped}
    skipped = [*one.plan.skipped, *(s for s in skipped if s.site not in known)]
    matrices = [pair.tasks[0].matrix for pair in pairs]
    placed = tuple(replace(pair, index=i) for i, pair in enumerate(pairs))
    work = sum(pair.work for pair in pairs)
    plan = planned(first, matrices, skipped, settings, work, workers)
    prints = f"{first.fingerprint} {second.fingerprint}"
    settings = {**plan.settings, "fingerprint": prints, "against": "yes"}
    about = {**plan.about, "against": second.name}
    return Work(replace(plan, about=about, settings=settings), (), placed)


def _matched(
    ones: Sequence[Task], twos: Sequence[Task], settings: Settings
) -> tuple[list[Pair], list[Skipped]]:
    by_site = {task.matrix.site: task for task in twos}
    pairs: list[Pair] = []
    out: list[Skipped] = []
    for i, task in enumerate(ones):
        twin = by_site.pop(task.matrix.site, None)
        why = _unlike(task, twin)
        if why or twin is None or isinstance(task.cut, Product) or isinstance(twin.cut, Product):
            out.append(Skipped(task.matrix.site, "tensor", why))
            continue
        work = TIMES * work_of(task.matrix.shape, "leading")
        wanted = settings.wanted & CHANGES
        pairs.append(Pair(i, "change", task.matrix.site, (task, twin), wanted, work))
    out += [Skipped(site, "tensor", "only in the second checkpoint") for site in by_site]
    return pairs, out


def _unlike(task: Task, twin: Task | None) -> str:
    if twin is None:
        return "only in the first checkpoint"
    if isinstance(task.cut, Product) or isinstance(twin.cut, Product):
        return "changes of low rank are compared once they are merged into their weights"
    if task.matrix.shape != twin.matrix.shape:
        return f"of shape {list(task.matrix.shape)} in one, {list(twin.matrix.shape)} in the other"
    return ""
