"""Rules on sequence models: what they may see, what they are to write, what is only filling."""

from collections.abc import Iterator

from sigmascope.records import Finding, Profile, Reading

COPIES = 0.99  # share of targets that are inputs
BY_CHANCE = 0.5  # share of such copies that other samples' inputs give
SEEN = 1e-3  # change of earlier outputs, over the differences between samples
FILLED = 0.05  # share of the counted targets


def later_inputs_seen(profile: Profile) -> Iterator[Finding]:
    """Outputs that see the inputs that they are to tell."""
    after = {r.site: r for r in profile.series("next inputs")}
    for r in profile.series("dependence on later inputs"):
        if r.estimate.value > SEEN and r.site in after:
            yield Finding(
                "later-inputs-seen",
                r.site,
                "error",
                (r, after[r.site]),
                f"{after[r.site].estimate.value:.0%} of the targets are the next input, and "
                "outputs at earlier places change when inputs at later ones are exchanged, by "
                f"{r.estimate.value:.2g} of what tells samples apart: the model reads the answers. "
                "Its loss will fall, and it will be of no use where later inputs are not there.",
                "Vaswani et al. 2017, Sec. 3.2.3",
                (
                    "Mask what is later in every operation over the places: `is_causal=True` or a "
                    "lower triangular mask in attention, padding on the left in convolutions, no "
                    "backward direction in recurrent layers, no statistics over places.",
                ),
            )


def copied_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that stand among the inputs at their own place."""
    chance = {r.site: r.estimate.value for r in profile.series("chance copies")}
    if any(r.estimate.value > COPIES for r in profile.series("next inputs")):
        return  # which are what is asked for; another input may hold them as well
    for r in profile.series("targets that are inputs"):
        if r.estimate.value > COPIES and chance.get(r.site, 1.0) < BY_CHANCE:
            yield Finding(
                "copied-targets",
                r.site,
                "warning",
                (r,),
                f"{r.estimate.value:.0%} of the targets are the input at the place of their "
                "output: to copy what is read is all that is asked for.",
                "Arithmetic: equal inputs and targets",
                (
                    "To tell the next input, shift: inputs `ids[:, :-1]`, targets `ids[:, 1:]`. To "
                    "fill in what is hidden, hide it among the inputs and let only it count.",
                ),
            )


def counted_padding(profile: Profile) -> Iterator[Finding]:
    """Filling at the ends of rows that counts in the loss."""
    for r in profile.series("counted padding"):
        if r.estimate.value > FILLED:
            yield _filled(r)


def _filled(r: Reading) -> Finding:
    id_ = r.form.removeprefix("id ")
    return Finding(
        "counted-padding",
        r.site,
        "warning",
        (r,),
        f"{r.estimate.value:.0%} of the targets that count in the loss are {id_}, which fills the "
        "ends of rows and stands nowhere else: this share of every step goes into telling the "
        "filling, and the loss is an average over it.",
        "Arithmetic: a mean over all places",
        (
            f"Leave it out: `cross_entropy(..., ignore_index={id_})`, or -100 in the targets there "
            "(but for the first, where it ends the text).",
        ),
    )
