"""Rules on how a program trains: its rate, its optimizer, its batches, how long."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Finding, Kind, Profile, Reading, rule
from sigmascope.diagnosis.trainability.model import likely_to_fit, probability

# names of the runs beside the user's, as readings have them in their form
PLANNED, OTHER, BATCH = "as planned", "other optimizer", "smaller batch"
FORM = {0.01: "rate x 0.01", 0.1: "rate x 0.1", 10.0: "rate x 10", 100.0: "rate x 100"}
USUAL_LOWER, USUAL_HIGHER = "usual rate, lower", "usual rate, higher"
LOWER = (FORM[0.1], FORM[0.01], USUAL_LOWER)
HIGHER = (FORM[10.0], FORM[100.0], USUAL_HIGHER)
DECAYLESS, CALMER, UNCLIPPED = "no weight decay", "momentum 0.9", "no clipping"
USUAL = "usual settings"
SCALED, UNFROZEN, REGISTERED = "scaled inputs", "nothing frozen", "every weight held"
ALONE, REMEMBERING = "compared output alone", "longer memory"

GOOD = 0.5  # of the loss of the best constant that is left: training got under way
STUCK = 0.95  # of the best constant's loss is left: nothing was learned
BETTER = 0.8  # left by another run, at most, if it is to show that it learns
BEGUN = 0.9  # the same, of a user's run that has not begun to learn
CLEARLY = 0.7  # times what the user's run had left by then
ELSEWHERE = 0.95  # times what the user's run leaves on samples that it has not seen
APART = 1e-3  # of a loss, by which the best constant's must be above the least
LEARNS = 0.9  # left on samples that a run has not seen, below which it learns
LONG = 100  # steps, from which a part of a plan says something of the whole
ENOUGH = 30  # steps, from which nothing learned means something
FALLS = 0.05  # of the loss, in a quarter of the steps: on its way
MANY = 10.0  # times a loss, from which a share in per cent is hard to read
FAR = 5.0  # times the best constant's loss: from there a fall is the way back
RATES = LOWER + HIGHER
BOTTOU = "Bottou, Curtis & Nocedal 2018, Sec. 4"
LECUN = "LeCun et al. 1998, Sec. 4.7"


@dataclass(frozen=True, slots=True)
class RunsTold:
    """What a profile tells of training at the user's settings and beside them."""

    readings: dict[tuple[str, str], Reading]

    @classmethod
    def of(cls, profile: Profile) -> "RunsTold":
        own = (r for r in profile.readings if r.view == "training")
        return cls({(r.quantity, r.form): r for r in own})

    def left(self, form: str = PLANNED) -> float:
        """What a run left of the best constant's loss; infinite if it broke, nan if not made."""
        if (q.BROKE_AT_STEP, form) in self.readings:
            return math.inf
        return self.value(q.LOSS_LEFT, form)

    def value(self, name: str, form: str = PLANNED) -> float:
        found = self.readings.get((name, form))
        return math.nan if found is None else found.estimate.value

    def estimate(self, name: str) -> Estimate | None:
        found = self.readings.get((name, PLANNED))
        return None if found is None else found.estimate

    @property
    def falling(self) -> bool:
        """Whether the user's loss was still on its way down, beyond doubt."""
        fall = self.estimate(q.LAST_FALL_OF_THE_LOSS)
        return fall is not None and fall.low > FALLS

    @property
    def steps(self) -> int:
        made = self.value(q.STEPS_TRIED)
        return 0 if math.isnan(made) else int(made)

    @property
    def whole(self) -> bool:
        """Whether all steps that are planned were made."""
        return self.value(q.PLANNED_STEPS) <= self.steps

    def better(self, form: str) -> bool:
        """Whether another run learned where the user's had not, by as many samples."""
        theirs, then = self.left(form), self.value(q.LOSS_LEFT_BY_THEN, form)
        mine = self.left() if math.isnan(then) else then
        # what it learned more may be worth nothing on samples it has not seen
        beyond, own = (self.value(q.LOSS_LEFT_ON_OTHERS, f) for f in (form, PLANNED))
        by_heart = beyond > ELSEWHERE * own  # neither where one is not known
        return theirs < BETTER and theirs < CLEARLY * mine and not by_heart

    def driven(self, form: str) -> bool:
        """Whether the user's settings drive the loss up, and another run does not."""
        return self.left() >= FAR and self.left(form) * FAR < self.left()

    @property
    def stalled(self) -> bool:
        """Whether nothing was learned, nothing is on its way, and the forecast sees no more."""
        end = self.estimate(q.LOSS_LEFT_AT_THE_END)
        seen = self.steps >= ENOUGH and not self.falling and (end is None or end.low >= GOOD)
        return seen and STUCK <= self.left() < math.inf

    def ahead(self, form: str) -> bool:
        """Whether another run is better, or has begun to learn where the user's has not."""
        theirs, then = self.left(form), self.value(q.LOSS_LEFT_BY_THEN, form)
        begun = theirs < STUCK <= self.left() and theirs < BEGUN * then
        return self.better(form) or begun

    def evidence(self, *forms: str) -> tuple[Reading, ...]:
        names = (q.LOSS_LEFT, q.BROKE_AT_STEP, q.LOSS_LEFT_BY_THEN)
        keys = [(n, f) for f in (PLANNED, *forms) for n in names]
        return tuple(self.readings[k] for k in keys if k in self.readings)

    def says(self) -> str:
        """The user's run in words."""
        left = self.left()
        if left == math.inf:
            broke = f"{self.value(q.BROKE_AT_STEP):.0f}"
            return f"At your settings the loss is not finite after {broke} steps"
        return (
            f"After {self.steps} steps at your settings {left_words(left)} the loss of the best "
            "constant is left"
        )


def read_beside(form: str, left: float, *, falling: bool, whole: bool) -> bool:
    """Whether a run beside the user's could change what is found, whatever came of it.

    Args:
        form: Its name.
        left: By the user's run of the best constant's loss: infinite if it broke, nan if that loss
            is no measure.
        falling: Whether the user's loss was still on its way down.
        whole: Whether all steps that are planned were made.
    """
    if form in HIGHER or form == BATCH:
        return left >= GOOD
    if form in LOWER or form == OTHER:  # too high a rate, or one that learns at none
        return left >= BETTER and not (falling and _coming(left, whole=whole))
    return True


def _coming(left: float, *, whole: bool) -> bool:
    """Whether a loss that falls is on a way that leads somewhere, and not back from afar."""
    return left < FAR and not (whole and left >= 1.0)


def trains(profile: Profile) -> bool:
    """Whether training at the user's settings got under way."""
    return RunsTold.of(profile).left() < GOOD


def learns(profile: Profile) -> bool:
    """Whether training at the user's settings learns something that holds on other samples too."""
    runs = RunsTold.of(profile)
    beyond = runs.value(q.LOSS_LEFT_ON_OTHERS)
    return trains(profile) or (runs.left() < STUCK and beyond < LEARNS)


def told_apart(profile: Profile) -> bool:
    """Whether training told targets of samples it had not seen, better than a constant does."""
    least, same, zeros = (
        next((r.estimate.value for r in profile.series(name)), math.nan)
        for name in (q.LEAST_LOSS, q.LEAST_LOSS_OF_A_CONSTANT, q.LOSS_OF_ZEROS)
    )
    apart = same - least > APART * max(abs(same), abs(least), abs(zeros))  # else a constant fits
    return apart and RunsTold.of(profile).value(q.LOSS_LEFT_ON_OTHERS) < LEARNS


def left_words(left: float) -> str:
    """What is left of a loss, to stand before it: a share, or times where it is many."""
    return f"{left:.0%} of" if left < MANY else f"{left:.2g} times"


LARGE_BATCH = Kind(
    "large-batch",
    "batches of an eighth leave half or less of as many samples, and 0.7 times yours",
    BOTTOU,
    setting=True,
)


@rule("training", LARGE_BATCH)
def large_batch(profile: Profile) -> Iterator[Finding]:
    """Batches of which an epoch has so few that smaller ones learn far more of it."""
    runs = RunsTold.of(profile)
    if not GOOD <= runs.left() < math.inf or not runs.better(BATCH):
        return
    if runs.left(BATCH) > GOOD:
        return
    yield LARGE_BATCH.finding(
        "(training)",
        "note" if runs.falling else "warning",
        runs.evidence(BATCH),
        f"{runs.says()}; with batches of an eighth, and as many samples, "
        f"{runs.left(BATCH):.0%}: there are too few steps in an epoch.",
        ("Take batches of an eighth.",),
    )


OTHER_OPTIMIZER = Kind(
    "other-optimizer",
    "no rate from a hundredth to a hundred times yours learns, and the other family at its usual "
    "rate leaves half or less",
    BOTTOU,
    setting=True,
)


@rule("training", OTHER_OPTIMIZER)
def other_optimizer(profile: Profile) -> Iterator[Finding]:
    """An optimizer that learns at no rate, where another does at its usual one."""
    runs = RunsTold.of(profile)
    left = runs.left()
    if not left >= BETTER or runs.falling or not runs.better(OTHER):
        return
    if runs.left(OTHER) > GOOD or any(runs.left(f) < BETTER for f in RATES):
        return
    yield OTHER_OPTIMIZER.finding(
        "(training)",
        "warning",
        runs.evidence(OTHER),
        f"{runs.says()}, and no rate from a hundredth to a hundred times yours does better; the "
        f"other family of optimizers leaves {runs.left(OTHER):.0%} after fewer.",
        ("Take Adam at 0.001 in place of SGD, or SGD with momentum in place of Adam.",),
    )


FEW_STEPS = Kind(
    "few-steps",
    "the whole plan was run, half or more is left, less than all, and the last quarter of the "
    "steps took off more than 5 % beyond doubt; or 95 % is left at every setting that was tried, "
    "and the probe, which trains for longer, says that it fits",
    BOTTOU,
    setting=True,
)


@rule("training", FEW_STEPS)
def few_steps(profile: Profile) -> Iterator[Finding]:
    """A plan that ends while the loss is still on its way."""
    runs = RunsTold.of(profile)
    if not (GOOD <= runs.left() < 1.0 and runs.whole and runs.falling):
        return
    fall = runs.estimate(q.LAST_FALL_OF_THE_LOSS)
    assert fall is not None
    yield FEW_STEPS.finding(
        "(training)",
        "warning",
        runs.evidence(),
        f"{runs.says()}, which are all that you plan, and the last quarter of them took "
        f"{fall.value:.0%} off: training ends before it has learned.",
        ("Train for more epochs, or take smaller batches, which make more steps of an epoch.",),
    )


RATE_TOO_LOW = Kind(
    "rate-too-low",
    "half or more is left, and at ten or a hundred times the rate, or at the usual one above, the "
    "same, or learning has begun there and not at yours (a warning where the whole plan was run, "
    "or nothing moves and nothing is foretold; else a note)",
    LECUN,
    setting=True,
)


@rule("training", RATE_TOO_LOW)
def rate_too_low(profile: Profile) -> Iterator[Finding]:
    """A rate at which training creeps, and a larger one that is far ahead by then."""
    runs = RunsTold.of(profile)
    if not GOOD <= runs.left() < math.inf:
        return
    larger = [f for f in HIGHER if runs.ahead(f)]
    if not larger:
        return
    best = min(larger, key=runs.left)
    short = runs.whole
    yield RATE_TOO_LOW.finding(
        "(training)",
        "warning" if short or runs.stalled else "note",
        runs.evidence(best),
        f"{runs.says()}; at {_rate_of(runs, best)}, {runs.left(best):.0%} after fewer"
        + (": the learning rate is too low" if short or runs.stalled else "")
        + (" for so few steps." if short else "."),
        (f"Raise the learning rate to {_rate(runs, best)}.",),
    )


RATE_TOO_HIGH = Kind(
    "rate-too-high",
    "at your settings 95 % or more of the best constant's loss is left and is not on its way "
    "down, or the loss breaks; and at a tenth or a hundredth of the rate, or at the usual one "
    "below, it is at most 80 %, and 0.7 times yours by then; or five times the best constant's "
    "loss is left, and a fifth of it there. From 100 % on at the end of the plan the loss may be "
    "falling",
    LECUN,
    setting=True,
)


@rule("training", RATE_TOO_HIGH)
def rate_too_high(profile: Profile) -> Iterator[Finding]:
    """A rate at which training breaks or stands still, and a smaller one that learns."""
    runs = RunsTold.of(profile)
    left = runs.left()
    if not left >= STUCK or (runs.falling and _coming(left, whole=runs.whole)):
        return
    smaller = [f for f in LOWER if not math.isnan(runs.left(f))]
    bears = [f for f in smaller if runs.better(f) or runs.driven(f)]
    everywhere = left == math.inf and not bears and runs.left(OTHER) < math.inf
    if not bears and not everywhere:
        return
    than, lower = ", and at a hundredth of your rate neither", "a thousandth or less"
    if bears:
        best = min(bears, key=runs.left)
        lower = _rate(runs, best)
        than = f"; at {_rate_of(runs, best)}, {runs.left(best):.0%}"
    yield RATE_TOO_HIGH.finding(
        "(training)",
        "error" if left == math.inf else "warning",
        runs.evidence(*bears),
        f"{runs.says()}{than}: the learning rate is too high.",
        (f"Lower the learning rate to {lower}.",),
    )


def _rate(runs: RunsTold, form: str) -> str:
    return f"{runs.value(q.RATE, form):.2g}"


def _rate_of(runs: RunsTold, form: str) -> str:
    """The rate of a run beside yours in words: `0.001, times 0.1`."""
    beside = form.replace("rate x", "times") if form.startswith("rate x") else "which is usual"
    return f"{_rate(runs, form)}, {beside}"


BEYOND_YOURS = (
    "a run leaves at most 0.8, and 0.7 times yours (a warning where half or more is left)"
)
STRONG_WEIGHT_DECAY = Kind(
    "strong-weight-decay",
    f"without the weight decay, which is above 0.02, {BEYOND_YOURS}",
    BOTTOU,
    setting=True,
    brings=(OTHER_OPTIMIZER,),
)


STRONG_MOMENTUM = Kind(
    "strong-momentum",
    f"at a momentum of 0.9 in place of yours, which is above 0.95, {BEYOND_YOURS}",
    BOTTOU,
    setting=True,
    brings=(OTHER_OPTIMIZER,),
)


STRONG_CLIPPING = Kind(
    "strong-clipping",
    f"without clipping, which is at a norm below 0.01, {BEYOND_YOURS}",
    BOTTOU,
    setting=True,
    brings=(OTHER_OPTIMIZER,),
)


@rule("training", STRONG_WEIGHT_DECAY, STRONG_MOMENTUM, STRONG_CLIPPING)
def strong_options(profile: Profile) -> Iterator[Finding]:
    """Weight decay, momentum or clipping that keeps training from learning."""
    runs = RunsTold.of(profile)
    for form, kind, do in (
        (DECAYLESS, STRONG_WEIGHT_DECAY, "Lower the weight decay: 1e-4 to 1e-2 is usual."),
        (CALMER, STRONG_MOMENTUM, "Lower the momentum to 0.9."),
        (UNCLIPPED, STRONG_CLIPPING, "Clip gradients at a norm of 1, or not at all."),
    ):
        if runs.better(form) and runs.left() >= GOOD / 5:
            yield kind.finding(
                "(training)",
                "warning" if runs.left() >= GOOD else "note",
                runs.evidence(form),
                f"{runs.says()}; with {form}, and nothing else changed, {runs.left(form):.0%}.",
                (do,),
            )


TRAINING = (RATE_TOO_HIGH, RATE_TOO_LOW, FEW_STEPS, OTHER_OPTIMIZER, LARGE_BATCH)
UNUSUAL_SETTINGS = Kind(
    "unusual-settings",
    "with the optimizer's settings, but rate and weight decay, as torch has them, and a momentum "
    f"of 0.9 where it is above 0.95, {BEYOND_YOURS}, and no other rate brings more; or so a script "
    "comes farther",
    BOTTOU,
    setting=True,
    brings=TRAINING,
)


@rule("training", UNUSUAL_SETTINGS)
def unusual_options(profile: Profile) -> Iterator[Finding]:
    """Settings of an optimizer, other than its rate, that keep training from learning."""
    runs = RunsTold.of(profile)
    least = min((v for f in RATES if not math.isnan(v := runs.left(f))), default=math.inf)
    left = runs.left(USUAL)
    if runs.better(USUAL) and runs.left() >= GOOD / 5 and left <= least / CLEARLY:
        facts = tuple(f for f in profile.facts if f.quantity == q.UNUSUAL_SETTINGS)
        settings = "; ".join(f.word for f in facts)
        yield UNUSUAL_SETTINGS.finding(
            "(training)",
            "warning" if runs.left() >= GOOD else "note",
            (*facts, *runs.evidence(USUAL)),
            f"{runs.says()}; with settings as they are usual ({settings}), and nothing else "
            f"changed, {left:.0%}.",
            ("Leave them as torch has them, or look for others nearby.",),
        )


MAXIMISED_LOSS = Kind(
    "maximised-loss",
    "steps make a loss larger that is to be small, for its sign is turned",
    "Arithmetic: the direction of a step",
    proven=True,
    even_if_it_learns=True,
)


@rule("training", MAXIMISED_LOSS)
def maximised_loss(profile: Profile) -> Iterator[Finding]:
    """An optimizer that is told to make a loss larger."""
    runs = RunsTold.of(profile)
    told = tuple(f for f in profile.facts if f.quantity == q.MAXIMISES)
    right = profile.fact(q.TAKEN_BY_THE_LOSS) and not profile.fact(q.UNBOUNDED_LOSS)
    upside_down = profile.series(q.LOSS_OF_RIGHT_ANSWERS)
    if told and right and not upside_down and runs.left() >= 1.0:
        yield MAXIMISED_LOSS.finding(
            "(training)",
            "error",
            (*told, *runs.evidence()),
            f"The optimizer is told to maximise the loss (`maximize=True`). {runs.says()}.",
            ("Leave `maximize` out.",),
        )


SETTINGS = (*TRAINING, STRONG_WEIGHT_DECAY, STRONG_MOMENTUM, STRONG_CLIPPING, UNUSUAL_SETTINGS)


STUCK_TRAINING = Kind(
    "stuck",
    "after 100 steps or more, or the whole plan, 95 % is left, and nothing that was tried learns "
    "more",
    "Measured: training of copies",
    of_any=True,
)


@rule("training", STUCK_TRAINING, FEW_STEPS)
def stuck(profile: Profile) -> Iterator[Finding]:
    """Training at the user's settings that learns nothing, nor does anything beside them.

    Where the probe, which trains for longer and at the usual rates, learns all the same, a short
    plan is what is wrong; a long one that ends here is told without a cause.
    """
    runs = RunsTold.of(profile)
    left, whole = runs.left(), runs.whole
    if not left >= STUCK or runs.falling or not (whole or runs.steps >= LONG):
        return
    named = (
        rate_too_high,
        rate_too_low,
        other_optimizer,
        large_batch,
        strong_options,
        unusual_options,
    )
    if any(any(find(profile)) for find in named):
        return
    tried = [f for f in (*RATES, OTHER, BATCH, REMEMBERING) if not math.isnan(runs.left(f))]
    chance = probability(profile)
    fits = likely_to_fit(profile)
    ahead = runs.ahead(REMEMBERING)  # which has a rule of its own
    if chance is not None and fits and whole and left < math.inf and not ahead:
        yield FEW_STEPS.finding(
            "(training)",
            "warning",
            (*runs.evidence(), chance),
            f"{runs.says()}, which are all that you plan, and no setting that was tried learns "
            "more in as few; for longer, plain training fits with a probability of "
            f"{chance.estimate.value:.2g}.",
            ("Train for more epochs.",),
        )
        return
    better = [f for f in tried if runs.better(f)]
    if better:
        best = min(better, key=runs.left)
        beside = f"; with another setting ({best}) {runs.left(best):.0%}."
    else:
        fault = "" if fits else ": what is trained is at fault, not how"
        beside = f", and no other rate, optimizer or batch that was tried learns more{fault}."
    says = f"{runs.says()}{beside}"
    yield STUCK_TRAINING.finding("(training)", "warning", runs.evidence(*tried), says)
