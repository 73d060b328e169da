"""Two checkpoints side by side: which matrices have a counterpart."""

from collections.abc import Sequence
from dataclasses import replace

from sigmascope.records import Skipped
from sigmascope.scanning.costs import work_of
from sigmascope.scanning.planning import Origin, Settings, Work, opened, planned, worked_out
from sigmascope.scanning.tasks import Pair, Product, Task

CHANGES = frozenset(
    {
        "relative change", "best scale", "turned change", "change norm", "change stable rank",
        "change spikes", "largest angle", "intruders",
    }
)  # fmt: skip
TIMES = 6.0  # the work of leading values: of both versions and of their difference


def versions(source: Origin, other: Origin, settings: Settings, *, workers: int = 1) -> Work:
    """What is to be done to say how a checkpoint moved.

    Args:
        source: The first version.
        other: The second version.
        settings: What is asked.
        workers: Processes that share the work.

    Raises:
        Refusal: If one cannot be opened.
    """
    first, second = opened(source), opened(other)
    quiet = replace(settings, wanted=frozenset())
    one, two = worked_out(first, quiet), worked_out(second, quiet)
    pairs, skipped = _matched(one.tasks, two.tasks, settings)
    skipped = [*one.plan.skipped, *skipped]
    matrices = [pair.tasks[0].matrix for pair in pairs]
    placed = tuple(replace(pair, index=i) for i, pair in enumerate(pairs))
    work = sum(pair.work for pair in pairs)
    plan = planned(first, matrices, skipped, settings, work, workers)
    prints = f"{first.fingerprint} {second.fingerprint}"
    asked = {**plan.settings, "fingerprint": prints, "against": "yes"}
    about = {**plan.about, "against": second.name}
    return Work(replace(plan, about=about, settings=asked), (), placed)


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
