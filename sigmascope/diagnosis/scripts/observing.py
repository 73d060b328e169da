"""`observe`: a loop in this process, or in a cell of a notebook, watched as it is."""

from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Finding
from sigmascope.diagnosis.scripts.observer import Observer, Stopped
from sigmascope.diagnosis.scripts.rules import found_in
from sigmascope.diagnosis.scripts.seen import ScriptRun


class Observation:
    """What trains while this is open, and what is wrong with its loop.

    What is found rests on what happened alone: nothing is run again, so that suspicions stay
    suspicions. `sigmascope diagnose train.py` proves them.

    Args:
        steps: Of the optimizer, after which the block is left; None for all that there are.
        seconds: The same, in time.

    Example:
        >>> import torch
        >>> net, x = torch.nn.Linear(3, 1), torch.randn(8, 3)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> with Observation() as seen:
        ...     for _ in range(10):
        ...         net(x).square().mean().backward()
        ...         optimizer.step()
        >>> [finding.name for finding in seen.findings]
        ['gradients-not-zeroed']
    """

    def __init__(self, *, steps: int | None = None, seconds: float | None = None) -> None:
        for name, limit in (("steps", steps), ("seconds", seconds)):
            if limit is not None and not limit > 0:
                raise Refusal(
                    f"`{name}` must be above 0, got {limit}. Leave it out to see all there are."
                )
        self._observer = Observer(steps=steps, seconds=seconds)

    def __enter__(self) -> "Observation":
        self._observer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.close()
        return kind is Stopped

    def close(self) -> None:
        """Take the hooks away."""
        self._observer.close()

    @property
    def run(self) -> ScriptRun:
        """What was seen so far."""
        return self._observer.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What speaks against the loop, so far."""
        return found_in(self._observer.run)

    def __repr__(self) -> str:
        from sigmascope import report

        return report.text(self)


@door
def observe(*, steps: int | None = None, seconds: float | None = None) -> Observation:
    """Watch whatever trains in a block, as it is.

    Args:
        steps: Of the optimizer, after which the block is left; None for all that there are.
        seconds: The same, in time.

    Returns:
        What was seen: `findings` of the loop, `run` with all else; printed, it is a table of what
        the loop does in a step.

    Example:
        >>> with observe(steps=100) as seen:
        ...     pass  # main()
        >>> seen.run.steps
        0
    """
    return Observation(steps=steps, seconds=seconds)
