"""Rules on what outputs depend on: other samples, chance, statistics, layers that are never run."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.setup import MOST
from sigmascope.records import Finding, Profile

MIXED = 1e-4  # change of outputs, over the differences between samples
HEAVY, NEARLY_ALL = 0.85, 0.97  # share of the numbers that dropout sets to zero
SOME = 0.2  # of the layers, that must follow another without an activation
APART, FAR = 4.0, 100.0  # of the mean square after normalisation, from one


def mixed_samples(profile: Profile) -> Iterator[Finding]:
    """Outputs of a sample that depend on the other samples of the batch."""
    whole = any(r.estimate.value == 1 for r in profile.series("steps of an epoch"))
    for r in profile.series("dependence on other samples"):
        if r.form == "pairs" or r.estimate.value <= MIXED:
            continue  # samples are compared with one another
        yield Finding(
            "mixed-samples",
            r.site,
            "note" if whole else "warning",  # nodes of one graph are all there
            (r,),
            "The output for a sample depends on the other samples of its batch: exchanged, they "
            f"change it by {r.estimate.value:.2g} of what tells samples apart. What is learned "
            "holds for the batches that it was learned in, and a sample alone gets another output.",
            "Arithmetic: two runs with other samples beside the same ones",
            (
                "Look for a reshape, transpose, softmax, mean or product over the dimension of the "
                "batch (`x.view(...)` after `transpose`, `dim=0`), and for `batch_first`.",
                "If samples lie along another dimension, say `batch_dim=` (`--batch-dim`). If they "
                "are nodes of one graph, it is meant: then views that need them apart stay silent.",
            ),
        )


def unused_layers(profile: Profile) -> Iterator[Finding]:
    """Layers that hold weights to be trained and are never run."""
    unused = [*profile.series("times called")]
    if unused:
        names = ", ".join(r.site for r in unused[:3])
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        yield Finding(
            "unused-layers",
            unused[0].site,
            "warning",
            tuple(unused[:4]),
            f"The model never calls {names}{more} on this batch, nor applies "
            f"{'its weight' if len(unused) == 1 else 'their weights'} in another way: no "
            "output for it depends on them, and it teaches them nothing.",
            "Arithmetic: what is not computed with has no gradient",
            (
                "Call them in `forward`, or take them out; experts that others of your samples are "
                "sent to are well as they are.",
            ),
        )


def linear_layers(profile: Profile) -> Iterator[Finding]:
    """Layers that make one linear map together, where it is more than one pair of many."""
    pairs = [r for r in profile.series("spare width") if r.estimate.value >= 1]
    if len(pairs) > SOME * len(profile.layers):
        first = pairs[0].form.removeprefix("after ")
        yield Finding(
            "linear-layers",
            pairs[0].site,
            "warning",
            tuple(pairs[:4]),
            f"{pairs[0].site} reads what {first} wrote with no activation between, and the place "
            "between them is not narrow"
            + (f" ({len(pairs)} such pairs)" if len(pairs) > 1 else "")
            + ": together they are one linear map, and one layer could compute the same.",
            "Baldi & Hornik 1989, Sec. 2",
            ("Put an activation between them (ReLU, GELU), or make one layer of the two.",),
        )


def heavy_dropout(profile: Profile) -> Iterator[Finding]:
    """Dropout that leaves next to nothing."""
    heavy = [r for r in profile.series("dropped share") if r.estimate.value > HEAVY]
    if heavy:
        worst = max(heavy, key=lambda r: r.estimate.value)
        share = worst.estimate.value
        yield Finding(
            "heavy-dropout",
            heavy[0].site,
            "error" if share > NEARLY_ALL else "warning",
            (worst, *(r for r in heavy[:3] if r != worst)),
            f"In training, {worst.site} sets {share:.1%} of its numbers to zero, and makes the "
            f"others {1 / max(1 - share, 1e-3):.0f} times as large: what is left is mostly noise.",
            "Srivastava et al. 2014, Sec. A.4",
            ("Drop less: 0.1 to 0.5 is usual. `p` is the share that is dropped, not kept.",),
        )


def stale_statistics(profile: Profile) -> Iterator[Finding]:
    """Running statistics of batch normalisers that are not those of the data."""
    sizes = profile.series("normalised square")
    apart = [r for r in sizes if not 1 / APART <= r.estimate.value <= APART]
    far = [r for r in apart if not 1 / FAR <= r.estimate.value <= FAR]
    if len(apart) > MOST * len(sizes) or far:
        worst = max(apart, key=lambda r: max(r.estimate.value, 1 / max(r.estimate.value, 1e-300)))
        yield Finding(
            "stale-statistics",
            apart[0].site,
            "warning",
            tuple(dict.fromkeys((apart[0], worst, *apart[:3]))),
            f"{len(apart)} of {len(sizes)} batch normalisers are in evaluation mode with running "
            f"statistics that are not those of this batch: after {worst.site} its mean square is "
            f"{worst.estimate.value:.3g}, and 1 is what normalisation is for. The weights may be "
            "as they should.",
            "Ioffe & Szegedy 2015, Sec. 3.1",
            (
                "Train in training mode (`model.train()`): statistics are then those of the batch.",
                "For evaluation, `reset_running_stats()` on every normaliser with `momentum=None`, "
                "and run over the data once in training mode without a step.",
            ),
        )
