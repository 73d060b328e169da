"""Tasks and pairs made by hand, without a checkpoint."""

from sigmascope.core.quantities import SCAN, in_view
from sigmascope.core.records import Matrix
from sigmascope.scanning.matrices import Cut
from sigmascope.scanning.planning import MatrixPair, Task

EVERY = frozenset(q.name for q in in_view(SCAN))


class Held(Cut):
    """A cut of nothing: the matrix is in hand."""

    def __init__(self):
        pass


def task(A, effort="full", *, index=0, wanted=EVERY, **more):
    about = str(A.dtype).removeprefix("torch."), ("w",), A.numel() * A.element_size(), effort, 1.0
    matrix = Matrix(f"w{index}", "linear", 0, *A.shape, *about)
    return Task(index, matrix, Held(), seed=7, wanted=wanted, **more)


def pair(A, B, kind="change", wanted=EVERY):
    return MatrixPair(0, kind, "w", (task(A), task(B, index=1)), wanted, 1.0)
