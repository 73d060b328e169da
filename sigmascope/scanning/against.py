"""Two checkpoints side by side: which matrices have a counterpart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sigmascope import quantities as q
from sigmascope.gate import Refusal, size_words
from sigmascope.records import Skipped
from sigmascope.scanning.costs import RESTING, work_of
from sigmascope.scanning.merges import TIMES, merges
from sigmascope.scanning.planning import Work, planned, worked_out
from sigmascope.scanning.settings import Origin, Settings, opened
from sigmascope.scanning.tasks import Pair, Product, Task

CHANGES = frozenset(
    {
        q.RELATIVE_CHANGE, q.BEST_SCALE, q.TURNED_CHANGE, q.CHANGE_NORM, q.CHANGE_STABLE_RANK,
        q.CHANGE_SPIKES, q.LARGEST_ANGLE, q.INTRUDERS,
    }
)  # fmt: skip


def require_meant(names: Iterable[str] | None, *, changes: bool) -> None:
    """Refuse names of quantities none of which would be read.

    Args:
        names: As they were asked for.
        changes: Whether there is a second version.

    Raises:
        Refusal: If one is of a change and there is none, or none is and there is one.
    """
    asked = frozenset(names or ())
    if not changes and (odd := sorted(asked & CHANGES)):
        raise Refusal(
            f"`{odd[0]}` says how a checkpoint moved: give its other version, `against`, or leave "
            "it out."
        )
    if changes and asked and not asked & CHANGES:
        raise Refusal(
            f"Of two versions one of {', '.join(sorted(CHANGES))} is read, got "
            f"{', '.join(sorted(asked))}: name some of these, or scan each version by itself."
        )


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
    changes = [task for task in two.tasks if isinstance(task.cut, Product)]
    if changes:
        pairs, alone = merges(first, one.tasks, changes, settings.wanted & CHANGES)
    else:
        pairs, alone = _matched(one.tasks, two.tasks, settings), [*_alone(one, two, settings)]
    known = {s.site for s in one.plan.skipped}
    skipped = [*one.plan.skipped, *(s for s in alone if s.site not in known)]
    matrices = [pair.tasks[0].matrix for pair in pairs]
    placed = tuple(replace(pair, index=i) for i, pair in enumerate(pairs))
    work = sum(pair.work for pair in pairs)
    plan = planned(first, matrices, skipped, settings, work, workers)
    prints = f"{first.fingerprint} {second.fingerprint}"
    asked = {**plan.settings, "fingerprint": prints, "against": "yes"}
    about = {**plan.about, "against": second.name}
    memory = max((_memory(pair.tasks) for pair in pairs), default=0)
    return Work(replace(plan, about=about, settings=asked, memory=memory), (), placed)


def _matched(ones: Sequence[Task], twos: Sequence[Task], settings: Settings) -> list[Pair]:
    by_site = {task.matrix.site: task for task in twos}
    pairs: list[Pair] = []
    for i, task in enumerate(ones):
        twin = by_site.get(task.matrix.site)
        if twin is None or _unlike(task, twin, settings):
            continue
        work = TIMES * work_of(task.matrix.shape, "leading")
        wanted = settings.wanted & CHANGES
        pairs.append(Pair(i, "change", task.matrix.site, (task, twin), wanted, work))
    return pairs


def _alone(one: Work, two: Work, settings: Settings) -> Iterator[Skipped]:
    """What has no counterpart that it could be held against, each once and with the reason."""
    ones = {task.matrix.site: task for task in one.tasks}
    twos = {task.matrix.site: task for task in two.tasks}
    left, gone = _reasons(one), _reasons(two)
    for site, task in ones.items():
        why = _unlike(task, twos[site], settings) if site in twos else ""
        if site not in twos:
            reasons = [gone[name] for name in task.matrix.tensors if name in gone]
            why = f"in the second: {reasons[0]}" if reasons else "only in the first checkpoint"
        if why:
            yield Skipped(site, "tensor", why)
    for site, task in twos.items():
        if site not in ones and not any(name in left for name in task.matrix.tensors):
            yield Skipped(site, "tensor", "only in the second checkpoint")
    known = {name for task in one.tasks for name in task.matrix.tensors} | left.keys()
    for name, why in gone.items():
        if name not in known:
            yield Skipped(name, "tensor", f"only in the second checkpoint: {why}")


def _reasons(work: Work) -> dict[str, str]:
    return {each.site: each.why for each in work.plan.skipped}


def _memory(tasks: tuple[Task, Task]) -> int:
    """Both as they are stored, and in single precision both and their difference."""
    one, other = (task.matrix for task in tasks)
    return RESTING + one.bytes + other.bytes + 12 * one.rows * one.cols + 2**26


def _unlike(task: Task, twin: Task, settings: Settings) -> str:
    """Why two matrices of one name are not compared; nothing where they are."""
    if isinstance(task.cut, Product) or isinstance(twin.cut, Product):
        return "changes of low rank are compared once they are merged into their weights"
    if task.matrix.shape != twin.matrix.shape:
        return f"of shape {list(task.matrix.shape)} in one, {list(twin.matrix.shape)} in the other"
    if (need := _memory((task, twin))) > settings.memory:
        return (
            f"comparing both takes {size_words(need)}, more than the "
            f"{size_words(settings.memory)} that a process may take (--memory)"
        )
    return ""
