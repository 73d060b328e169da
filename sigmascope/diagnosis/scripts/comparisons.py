"""What losses of torch are given while a script trains: outputs that cannot be what the loss takes.

Everything is read off the tensors of a call: their shapes and numbers, the operations that made an
output, and what models were called with since the last backward pass.
"""

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from sigmascope.diagnosis.scripts.replay import (
    OF_VALUES,
    Recorder,
    leaves_of,
    made_by,
    mark_of,
    weights_of,
)
from sigmascope.diagnosis.scripts.seen import Called, Line, LossSeen, ScriptRun
from sigmascope.models.samples import IGNORED, tensors

LOOKED = 3  # calls of one kind whose numbers are looked at
KEPT = 16  # steps whose gradients and classes are looked at
SORTED = 64  # batches whose classes are counted
LARGEST = 1 << 22  # numbers of targets that are looked at
HEAD = 1 << 16  # numbers of data that are kept, to be known again
CALLS = 64  # of modules in a step, whose arguments are held
WIDEST = 1 << 12  # numbers of a sample by which two are compared
RANGES = {
    "tanh": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "relu": (0.0, math.inf),
}
TOGETHER = ("triplet_margin_loss", "cosine_embedding_loss")  # first arguments that are to be alike
UNIT = 1e-2  # off a length of one
MASKED = 1e4  # size of a score that no softmax sees
LEAST = 8  # rows of which pairs are told
EXACT = 1e-6  # off a correlation of one, by rounding
CHOSEN = ("Index", "Gather", "Take")  # operations that choose
SAME = 0.99  # of the targets, that also went in
PAIRS = 1 << 14  # of ids beside one another, that are counted


class Comparisons:
    """Looks at each call of a loss of torch, and writes down what it finds.

    Args:
        run: Where it is written.
        recorder: Which knows what is made of no data, and where shares were made.
        place: The line of the script that is being run.
    """

    def __init__(
        self, run: ScriptRun, recorder: Recorder, place: Callable[[], Line | None]
    ) -> None:
        self.run, self._recorder, self._place = run, recorder, place
        self._of_nothing = set[Line | None]()  # places of losses whose targets are made of no data
        # what modules were called with since the last backward pass: ids; numbers, one row a
        # sample; and those that a copy of what trains was asked of
        self._ids, self._inputs, self._ahead = (deque[Tensor](maxlen=CALLS) for _ in range(3))
        self._table: Tensor | None = None  # the last of them, where it is a table or sequences
        # numbers that modules gave; what was made of it since the last backward pass, by which, of
        # what; and what a judge was told to say of what another one gave
        self._given = deque[Any](maxlen=CALLS)
        self._judged, self._told = deque[Any](maxlen=CALLS), dict[int, float]()
        # the last loss of two outputs, the weights of each, and which it was
        self.sides: tuple[Any, tuple[set[int], set[int]], Any] | None = None
        # what a module gave last, and the columns of it that are what went into the first one
        self._through: tuple[weakref.ref[Tensor], Tensor, Called] | None = None
        self._parts = dict[Any, tuple[weakref.ref[Tensor], Tensor]]()  # of larger tensors, at first
        # ids and what follows them in time, and across the samples, by the place of their loss
        self._beside = dict[Line | None, tuple[list[Tensor], list[Tensor]]]()
        self._of_graph = False  # whether a model was called with edges since the last pass

    def fed(self, args: Any) -> None:
        """A module is called by the script itself, and gradients go through."""
        for t in tensors(args):
            self._of_graph = self._of_graph or is_edges(t)
            if not t.is_floating_point() and t.numel() > 1 and not t.is_complex():
                self._ids.append(t.detach())
            elif (rows := _rows(t)) is not None:
                self._inputs.append(rows)
                self._table = t.detach() if t.ndim in (2, 3) else None

    def asked(self, args: Any) -> None:
        """A copy of what trains is called without gradients."""
        self._ahead.extend(r for t in tensors(args) if (r := _rows(t)) is not None)

    def gave(self, module: nn.Module, args: Any, out: Any) -> None:
        """A module that the script calls itself has given something."""
        x, y = (next(tensors(side), None) for side in (args, out))
        if x is None or y is None:
            return
        if y.grad_fn is not None:
            of_other = not x.requires_grad and mark_of(x) in self._given
            self._judged.append((y.grad_fn, id(module), x.grad_fn is not None, of_other))
        self._given.append(mark_of(y.detach()))  # heard of by nobody, where it is done here

    def masked(self, given: Iterable[Tensor]) -> None:
        """A model was called with ids, and attention within it has masks: what these hide."""
        hidden, self._recorder.hidden = self._recorder.hidden, []
        ids = [t for t in given if t.ndim == 2 and not t.is_floating_point()] if hidden else []
        fillings = [f for f in map(filling, ids) if f is not None]
        for where, mask in hidden:
            for f in fillings[:1]:
                if f.shape == mask.shape:
                    turned, of = self.run.masked.get(where, (0, 0))
                    self.run.masked[where] = turned + torch.equal(mask, ~f), of + 1

    def stays(self, t: Tensor) -> None:
        """Whether a part of a larger tensor is what it was when it was used before."""
        base = t._base
        if base is None or not t.is_floating_point() or base.numel() < 2 * t.numel():
            return
        t = _head(t.detach())
        key = id(base), t.storage_offset(), t.shape
        ref, was = self._parts.get(key, (None, None))
        if ref is None or was is None or ref() is not base:
            if len(self._parts) < KEPT:
                self._parts[key] = weakref.ref(base), t.clone()
        else:
            self.run.rewritten = max(self.run.rewritten, rescaled_by(was, t))

    def forget(self) -> None:
        """Behind a backward pass."""
        if self._ahead and self._inputs and self._recorder.ahead:
            pairs = [(a, x) for a in self._ahead for x in self._inputs if len(a) == len(x) > 1]
            pairs = [(a, x) for a, x in pairs if a.shape[1] <= x.shape[1]]
            fits = [torch.equal(x[:, : a.shape[1]], a) for a, x in pairs]
            still, of = self.run.unmoved
            self.run.unmoved = still + any(fits), of + bool(pairs)
        for each in (self._ids, self._inputs, self._ahead, self._judged):
            each.clear()
        self._table, self._of_graph = None, False

    def compared(
        self, name: str, args: tuple[Any, ...], named: Mapping[str, Any], found: Tensor
    ) -> None:
        """A loss was computed of an output with gradients and targets.

        Args:
            name: Of the loss, in `torch.nn.functional`.
            args: It was called with; output and targets first.
            named: It was called with.
            found: What it gave.
        """
        run, out, targets, where = self.run, args[0], args[1], self._place()
        node, shapes = made_by(out), (tuple(args[0].shape), tuple(args[1].shape))
        if self._recorder.is_of_nothing(targets):
            self._of_nothing.add(where)
        few = targets.numel() <= LARGEST
        if few and not targets.is_floating_point() and where not in self._of_nothing:
            if len(run.classes) < SORTED:
                run.classes.append((len(targets), len(targets.unique()), out.shape[-1]))
            if run.steps < KEPT and name == "cross_entropy":
                self._copied(where, out, targets)
                self._runs_across(where, targets)
                if self._of_graph and found.numel() == 1:
                    self._holds_out(where, targets.detach())
        run.comparisons[name, node, shapes, where] += 1
        if found.numel() == 1 and named.get("reduction") == "sum":
            run.summed[where] = out.numel()
        if run.steps < KEPT:
            found.register_hook(partial(self._directed, (name, where)))
            same = out.shape == targets.shape and bool((out == targets).all())
            run.identical[name, where] += name in TOGETHER and same
            self._answered(where, targets.detach())
            if name == "triplet_margin_loss" and where not in run.told_apart and not run.steps:
                far = args[2] if len(args) > 2 else named["negative"]
                run.told_apart[where] = _turned_triplets(out, targets, far)
            if (name in OF_VALUES or name.startswith("binary")) and out.numel() == targets.numel():
                self._judges(where, out, targets, found)
            with suppress(Exception):  # not every loss is called as torch's own documentation says
                if name in ("cross_entropy", "nll_loss") and not targets.is_floating_point():
                    weight = named.get("weight", args[2] if len(args) > 2 else None)
                    if isinstance(weight, Tensor):
                        classes = targets[targets >= 0].flatten()
                        counts = torch.bincount(classes, minlength=len(weight))[: len(weight)]
                        self._count(where, weight.tolist(), counts.tolist())
                weight = named.get("pos_weight")
                if isinstance(weight, Tensor) and weight.numel() == 1:
                    yes = int((targets > 0.5).sum())
                    self._count(where, [1.0, float(weight)], [targets.numel() - yes, yes])
        if run.comparisons[name, node, shapes, where] > LOOKED:  # in any phase
            return
        if name in ("cross_entropy", "nll_loss") and out.ndim == 2:
            # the shape that rows had before they were laid out as such, by `view` or `reshape`
            last = out.grad_fn
            while last is not None and last.name().startswith(("LogSoftmax", "ToCopy")):
                last = last.next_functions[0][0]
            views = ("ViewBackward0", "UnsafeViewBackward0")
            viewed = last is not None and last.name() in views
            sizes = getattr(last, "_saved_self_sym_sizes", ()) if viewed else (len(out),)
            _, *places = laid = [*map(int, sizes)]
            if math.prod(places[1:]) > 1 and places[0] == out.shape[1] != places[-1]:
                run.scrambled[where] = (*laid,)
        if name in ("nll_loss", "kl_div") and out.ndim > 1:  # of shares that are none
            sums = out.detach().logsumexp(1 if name == "nll_loss" else -1).abs()
            if out.ndim == 2 and node.startswith("LogSoftmax"):
                run.shares[where] = self._recorder.shares
            least = run.unshared.get((name, where), math.inf)
            run.unshared[name, where] = min(least, float(sums.median()))
        word = node.partition("Backward")[0].lower()
        ends = RANGES.get(word)
        if name in OF_VALUES and ends is not None and targets.is_floating_point():
            wanted = targets.detach()
            spread = float((wanted - wanted.mean()).square().mean())
            over = float((wanted - wanted.clamp(*ends)).square().mean())
            least = run.beyond.get((word, where), math.inf)
            run.beyond[word, where] = min(least, over / spread if spread > 0 else 0.0)
        if name == "cross_entropy" and out.ndim == 2:
            size = largest_score(out)
            if size is not None and len(out) == out.shape[1]:
                own = out.detach().diagonal()
                alone = bool((own > (1 - UNIT) * size).all()) and not targets.is_floating_point()
                at = torch.arange(len(out), device=targets.device)
                self.run.selves[where] += alone and not bool((targets == at).any())
            if size is not None:
                run.narrow[where] = out.shape[1], max(size, run.narrow.get(where, (0, 0.0))[1])
            if not targets.is_floating_point():
                self._paired(where, out, targets.detach())
        if targets.requires_grad and name not in TOGETHER:
            common = leaves_of(out) & leaves_of(targets)
            run.attached[name, where] += bool(common) and made_by(targets) == "AddBackward0"
            sides = weights_of(out), weights_of(targets)
            if not common and all(sides):
                self.sides = weakref.ref(found), sides, (name, where)

    def valued(self, name: str, found: Tensor) -> LossSeen | None:
        """Where the value of a loss is to be kept; None where it is none."""
        if found.numel() != 1 or not found.requires_grad:
            return None
        where = self._place()
        return self.run.terms.setdefault((name, where), LossSeen(where))

    def _directed(self, key: Any, gradient: Tensor) -> None:
        """A backward pass comes through a loss of torch, to make it smaller or larger."""
        up, of = self.run.reversed.get(key, (0, 0))
        self.run.reversed[key] = up + bool(gradient.sum() < 0), of + 1

    def passed(self, seen: Called, args: Any, out: Any) -> None:
        """A module that the script calls itself has given something: what of it went through.

        Of modules that are called one on what the other gave, as layers of a flow are, the last
        one tells it of all.
        """
        x, y = (next(tensors(side), None) for side in (args, out))
        still = unchanged_columns(x, y)
        through, self._through = self._through, None
        if x is not None and x.requires_grad:  # it goes on with what another one gave
            if through is not None:
                through[2].unchanged = 0.0
            # and not with what was made of it
            before = through[1] if through is not None and through[0]() is x else None
            still = still & before if still is not None and before is not None else None
        seen.unchanged = 0.0 if still is None else float(still.double().mean())
        if y is not None and still is not None:
            self._through = weakref.ref(y), still, seen

    def _count(self, where: Line | None, weights: list[float], counts: list[int]) -> None:
        seen = self.run.weighted.setdefault(where, (weights, [0] * len(weights)))
        seen[1][:] = [a + b for a, b in zip(seen[1], counts, strict=True)]

    def _judges(self, where: Line | None, out: Tensor, targets: Tensor, found: Tensor) -> None:
        """What a judge says of what another module gave is compared with one and the same number.

        Of what is taken out of the graph the judge is told what to say; of what is not the other
        one is, and the two are adversaries where these differ.
        """
        value, node = float(targets.flatten()[0]), out.grad_fn
        if not bool((targets == value).all()):
            return
        calls = {id(of): rest for of, *rest in self._judged}
        for _ in range(LEAST):  # what lays it out otherwise, or closes it
            if node is None or id(node) in calls or not node.next_functions:
                break
            node = node.next_functions[0][0]
        judge, fed, of_other = calls.get(id(node), (0, False, False))

        def moved(gradient: Tensor) -> None:
            if bool(gradient.sum() <= 0):  # it is made larger
                return
            if of_other:
                self._told[judge] = value
            elif judge in self._told:
                same, of = self.run.agreed.get(where, (0, 0))
                self.run.agreed[where] = same + (value == self._told[judge]), of + 1

        if fed or of_other:
            found.register_hook(moved)

    def _answered(self, where: Line | None, targets: Tensor) -> None:
        """Whether a column of what goes in is what is to come out, shifted and scaled.

        Of sequences the last step alone is asked, and whether it is that as it is: to tell an
        earlier one is a task of memory, and what goes straight on tells all that follows.
        """
        x, y = self._table, targets.flatten()
        if self.run.answers.get(where, (0, 0))[0] < 0:  # once not, and so never in every batch
            return
        if x is None or len(x) != len(y) or len(x) < 2 * LEAST or x[0].numel() < 2:
            return
        many = x.shape[1] if x.ndim == 2 else 0
        if not many:
            x = x[:, -1] if x.shape[1] >= x.shape[2] else x[:, :, -1]  # time is the longer side
            x = x * (x == y[:, None]).all(0)
        x, y = (t.double() - t.double().mean(0) for t in (x, y))
        size = x.norm(dim=0) * y.norm()
        tells = ((x.T @ y).abs() / size.clamp_min(1e-300)) > 1 - EXACT
        best = int(tells.nonzero()[0]) if bool(tells.any()) and len(y.unique()) > 1 else -1
        before, _ = self.run.answers.get(where, (best, 0))
        self.run.answers[where] = best if best == before else -1, many

    def _copied(self, where: Line | None, out: Tensor, targets: Tensor) -> None:
        """Whether a decoder that is called place by place is given there what it is to put out."""
        wanted = targets.flatten()
        columns = [t for t in self._ids if t.ndim == 1]
        rows = len(columns[-1]) if columns else 1
        places, odd = divmod(len(wanted), rows)
        if odd or places < 2 or len(columns) < places or out.ndim != 2:
            return
        last = columns[-places:]
        if any(len(t) != rows for t in last):
            return
        counted = wanted != IGNORED
        alike = (torch.stack(last, 1).flatten() == wanted)[counted].double().mean()
        self.run.copied[where] += bool(alike >= SAME) and len(wanted.unique()) > 2

    def _runs_across(self, where: Line | None, targets: Tensor) -> None:
        """What an id tells of the one that is to follow it, and of the one of the next sample."""
        if not self._ids:
            return
        x = self._ids[-1]
        if x.ndim != 2 or x.numel() != targets.numel() or min(x.shape) < 3:
            return
        t = targets.detach().reshape(x.shape)
        shifted = [torch.equal(*ends) for ends in ((x[1:], t[:-1]), (x[:, 1:], t[:, :-1]))]
        if shifted.count(True) != 1:
            return
        if shifted[1]:
            x, t = x.mT, t.mT
        along, across = self._beside.setdefault(where, ([], []))
        if sum(map(len, along)) < PAIRS:
            along.append(torch.stack([x.flatten(), t.flatten()], 1))
            across.append(torch.stack([x[:, :-1].flatten(), x[:, 1:].flatten()], 1))
            base = self._ids[-1].untyped_storage().data_ptr()
            one, other = (shared_information(torch.cat(pairs)) for pairs in (along, across))
            self.run.across[where] = one, other, self._recorder.laid.get(base)

    def _holds_out(self, where: Line | None, targets: Tensor) -> None:
        """Whether a loss of all nodes of a graph is of such as are scored apart.

        Parts that are classes are scored for another reason, and hidden labels are all the same.
        """
        parts = [p for p in self._recorder.parts if p.shape == targets.shape]
        if len(parts) < 2:
            return
        apart = bool((torch.stack(parts).sum(0) <= 1).all())
        if apart and all(len(targets[p].unique()) > 1 for p in parts):
            self.run.held[where] = len(targets), tuple(int(p.sum()) for p in parts)

    def _paired(self, where: Line | None, out: Tensor, targets: Tensor) -> None:
        """Whether what is told to belong together is no nearer than what is not."""
        m = len(out)
        square = out.shape[1] == m and m >= LEAST and m % 4 == 0
        if not square or len(targets.unique()) != m or where in self.run.pairs:
            return
        at = torch.arange(m, device=targets.device)
        if bool(((targets == at) | (targets ^ 2 == at)).any()):  # of two sides apart, or of more
            return
        others = {m // 2: (at + m // 2) % m, 1: at ^ 1}
        measures = [out.detach().double()]
        same = [x for x in self._inputs if x.shape[1] == self._inputs[-1].shape[1]]
        x = torch.cat(same)[-m:].double() if same else out.new_zeros(0)
        if len(x) == m:
            measures.append(-torch.cdist(x, x))

        def told(near: Tensor, other: Tensor) -> float:
            # than one beside it in the same view, for all rows of a view may be shifted alike
            return _nearer(near, other) - _nearer(near, other ^ 2)

        found = [
            (*max((told(near, other), k) for k, other in others.items()), told(near, targets))
            for near in measures
        ]
        self.run.pairs[where] = max(found)


def shared_information(pairs: Tensor) -> float:
    """How much one of a pair tells of the other, beyond what as many of no pair would by chance.

    Args:
        pairs: Whole numbers, `[n, 2]`.

    Returns:
        In nats; 0 where most are pairs of the same.
    """
    one, other = (side.unique(return_inverse=True)[1] for side in pairs.T)

    def joint(other: Tensor) -> float:  # the entropy, without what is the same for all partners
        counts = (one * len(one) + other).unique(return_counts=True)[1].double()
        return float((counts * counts.log()).sum()) / len(one)

    same = float((pairs[:, 0] == pairs[:, 1]).double().mean())
    return joint(other) - joint(other.roll(len(other) // 2)) if same < 0.5 else 0.0


def _turned_triplets(anchor: Tensor, near: Tensor, far: Tensor) -> float:
    """By how many standard errors what is to be far from an anchor lies nearer at first.

    Of what was chosen among others by how near it is, nothing is told.
    """
    if len(anchor) < 2 * LEAST or made_by(far).startswith(CHOSEN):
        return 0.0
    gap = (anchor - near).detach().double().norm(dim=-1)
    gap = gap - (anchor - far).detach().double().norm(dim=-1)
    return float(gap.mean() / gap.std().clamp_min(1e-300) * math.sqrt(len(gap)))


def _nearer(near: Tensor, other: Tensor) -> float:
    """How much nearer than others one other of each row is, in standard errors.

    Args:
        near: `[m, m]`, the larger the nearer.
        other: Which one of each row.
    """
    m = len(near)
    seen = (near.abs() < MASKED) & ~torch.eye(m, dtype=torch.bool, device=near.device)
    count = seen.sum(1).clamp_min(2)
    mean = (near * seen).nan_to_num().sum(1) / count
    spread = (((near - mean[:, None]) * seen).nan_to_num().square().sum(1) / (count - 1)).sqrt()
    own = near[torch.arange(m, device=near.device), other]
    return float(((own - mean) / spread.clamp_min(1e-12)).mean() * math.sqrt(m))


def _rows(t: Tensor) -> Tensor | None:
    """Data as one row a sample; None if it is none, or large."""
    plain = t.is_floating_point() and t.layout == torch.strided and not t.requires_grad
    if not plain or t.ndim < 2 or not len(t) or t[0].numel() > WIDEST:
        return None
    return t.detach().reshape(len(t), -1)


def filling(ids: Tensor) -> Bool[Tensor, "n places"] | None:
    """Which places of rows of ids one id fills from one end on, to different lengths.

    Args:
        ids: `[n, places]`.

    Returns:
        None where there is no such id, or where it stands elsewhere, too.
    """
    for turned in (ids.flip(1), ids):
        fills = turned == turned[:, 0].mode().values
        ran = fills.cumprod(1).bool()
        if torch.equal(fills, ran) and len(fills.sum(1).unique()) > 1:
            return fills.flip(1) if turned is not ids else fills
    return None


def spread_of(x: Tensor) -> list[float]:
    """Spread of the numbers of a batch; nothing of whole ones, of few, or where all are the same.

    Args:
        x: One row a sample.
    """
    if not x.is_floating_point() or x.layout != torch.strided or x.ndim < 2:
        return []
    x = _head(x.detach()).double()
    spread = float(x.std()) if x.numel() >= 2 * LEAST else 0.0
    return [spread] if 0 < spread < math.inf else []


def interleaved(x: Tensor) -> float:
    """Whether channels of images stand beside one another along their rows, and columns.

    Args:
        x: `[n, channels, rows, columns]`.

    Returns:
        Mean squared difference of numbers as many places apart as there are channels, over that of
        neighbours, the larger of the two; 1 where numbers one place nearer or farther do not differ
        more, as in stripes one way alone, and of what are no images in colour.
    """
    if x.ndim != 4 or not x.is_floating_point() or not 1 < x.shape[1] < LEAST:
        return 1.0
    x, c = _head(x.detach()).double(), x.shape[1]
    if len(x) < LEAST or min(x.shape[2:]) < 4 * c:
        return 1.0
    found = list[float]()
    for along in (x, x.mT):  # columns, too: as many rows on is the next row of the image
        one, less, apart, more = (
            float((along[..., k:] - along[..., :-k]).square().mean()) for k in (1, c - 1, c, c + 1)
        )
        found.append(apart / one if 0 < apart < min(one, less, more) else 1.0)
    return max(found)


def largest_score(out: Tensor) -> float | None:
    """How large scores can be that are products of vectors of length one, times a number.

    Args:
        out: `[n, k]`, with its graph.

    Returns:
        The size that none of them is beyond, whatever the weights that the vectors come from;
        None if they are no such products.
    """
    with suppress(Exception):  # what is saved in a graph may have been written to, or be gone
        node = out.grad_fn
        while node is not None and node.name().startswith(("Div", "Mul", "MaskedFill", "Where")):
            node = next((n for n, _ in node.next_functions if n is not None), None)
        if node is None or node.name() != "MmBackward0":
            return None
        a: Tensor | None = node._saved_self  # pyright: ignore[reportAttributeAccessIssue]
        b: Tensor | None = node._saved_mat2  # pyright: ignore[reportAttributeAccessIssue]
        if a is None or b is None:
            return None
        lengths = torch.cat([a.detach().norm(dim=1), b.detach().norm(dim=0)])
        if bool((lengths - 1).abs().max() > UNIT):
            return None
        cosines, scores = a.detach() @ b.detach(), out.detach()
        seen = scores.abs() < MASKED
        return float(scores[seen].norm() / cosines[seen].norm())
    return None


def unchanged_columns(x: Tensor | None, y: Tensor | None) -> Bool[Tensor, " d"] | None:
    """Which columns of what goes in come out as they were, to the last bit.

    Args:
        x: What a module was called with.
        y: What it gave.

    Returns:
        None where these are no rows of numbers of the same shape, or fewer than eight.
    """
    if x is None or y is None or x.shape != y.shape or x.ndim != 2 or len(x) < 8:
        return None
    if not x.is_floating_point():
        return None
    given = x.detach()
    return (given == y.detach()).all(0) & (given != given[:1]).any(0)


def stored_in(data: Any, depth: int = 3) -> list[Tensor]:
    """Numbers that a data set holds, as they lie in memory; of many the first ones.

    Args:
        data: A data set, or one around others.
        depth: How many of these are gone through.
    """
    found = _tensors_of(data)
    for value in vars(data).values() if depth and hasattr(data, "__dict__") else ():
        if isinstance(value, torch.utils.data.Dataset):
            found += stored_in(value, depth - 1)
    return [_head(t) for t in found if t.is_floating_point() and t.ndim and t.numel() > 1]


def _tensors_of(data: Any) -> list[Tensor]:
    """Tensors, arrays and lists of whole numbers among the attributes of a data set."""
    found = list[Tensor]()
    for value in vars(data).values() if hasattr(data, "__dict__") else ():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Tensor):
                found.append(part.detach())
            elif type(part).__module__ == "numpy" and getattr(part, "ndim", 0):
                with suppress(TypeError, ValueError):  # of objects, or turned round
                    found.append(torch.from_numpy(part))
            elif isinstance(part, list) and part and all(type(one) is int for one in part):
                found.append(torch.tensor(part))
    return found


def weights_by_class(weights: Tensor, data: Any) -> tuple[tuple[int, float], ...]:
    """How many samples each class of a data set has, and what each of them weighs.

    Args:
        weights: One for each sample.
        data: A data set, or a part of one, that holds one column of whole numbers.

    Returns:
        Nothing where it holds none or several, or where samples of one class weigh differently.
    """
    whole: Any = data
    place = torch.arange(len(data))
    while isinstance(whole, torch.utils.data.Subset):
        whole, place = whole.dataset, torch.as_tensor(whole.indices)[place]
    columns = [
        t
        for t in _tensors_of(whole)
        if t.ndim == 1 and len(t) == len(whole) and not (t.is_floating_point() or t.is_complex())
    ]
    if len(columns) != 1 or len(weights) != len(data):
        return ()
    _, each, counts = columns[0][place].unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=torch.float64).index_add(0, each, weights.double())
    means = sums / counts
    one = torch.allclose(means[each], weights.double(), rtol=1e-6, atol=0)
    return tuple(zip(counts.tolist(), means.tolist(), strict=True)) if one else ()


def _head(t: Tensor) -> Tensor:
    """The first samples."""
    return t[: max(1, HEAD // max(t[:1].numel(), 1))]


def rescaled_by(was: Tensor, now: Tensor) -> float:
    """How far samples are changed over their size, where most are shifted and scaled alone.

    Args:
        was: Before, one row a sample.
        now: Behind.

    Returns:
        0 where they are the same, or are others.
    """
    if was.shape != now.shape or torch.equal(was, now):
        return 0.0
    changed = (was != now).reshape(len(was), -1).any(1)
    a, b = was[changed].double(), now[changed].double()
    if 2 * len(a) < len(was):
        return 0.0
    one, other = (x.flatten() - x.mean() for x in (a, b))
    if not float((one @ other) / (one.norm() * other.norm()).clamp_min(1e-300)) > 1 - 1e-4:
        return 0.0
    return float((b - a).norm() / a.norm().clamp_min(1e-12))


def is_edges(t: Tensor) -> bool:
    """Whether it may be the edges of a graph: where each begins, and where it ends."""
    return t.dtype == torch.long and t.ndim == 2 and len(t) == 2 < t.shape[1]


def is_copy(one: nn.Module, other: nn.Module) -> bool:
    """Whether one module is a copy of another, as far as class and shapes tell."""
    shapes = lambda m: [p.shape for p in m.parameters()]
    return one is not other and type(one) is type(other) and shapes(one) == shapes(other)
