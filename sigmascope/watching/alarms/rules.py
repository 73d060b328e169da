"""Every alarm, listed by hand, with the thresholds that were measured (docs/watching.md)."""

from sigmascope import quantities as q
from sigmascope.records import Kind
from sigmascope.watching.alarms.changes import Change
from sigmascope.watching.alarms.courses import (
    AtOdds,
    Diverging,
    Frozen,
    Growing,
    LossDrift,
    LossSpike,
    NotFinite,
    PlasticityLoss,
    RateJump,
    Settled,
)
from sigmascope.watching.alarms.signs import Rule

RULES: tuple[Rule, ...] = (
    NotFinite(
        "non-finite",
        "a norm or the loss is infinite or not a number",
        "error",
        frozenset({q.LOSS, q.GRADIENT_NORM, q.FROBENIUS_NORM, q.MEAN_SQUARE, q.UPDATE_NORM}),
        "IEEE 754",
        ("Stop, and go back to the last checkpoint before this step.",
         "Look at the batch of this step; lower the rate or clip gradients if the batch is sound."),
        patience=1,
    ),
    Growing(
        "overflow-ahead",
        "a norm grows a hundredfold over five looks, at each of them; the step of its overflow "
        "is said",
        "error", frozenset({q.GRADIENT_NORM, q.MEAN_SQUARE, q.FROBENIUS_NORM}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Lower the learning rate, or clip gradients to their usual norm.",
         "If one layer grows alone, normalise before it."),
        patience=1,
    ),
    LossSpike(
        "loss-spike",
        "the mean of the last losses is beyond 5.5 times their scatter, 0.3 of the usual loss "
        "and 0.08 of the way from the start; the layer that moved first since 30 steps before is "
        "named, units that died before all else",
        "warning", frozenset({q.LOSS}),
        "Chowdhery et al. 2022, Sec. 5.1",
        ("Go back to a checkpoint before the spike and leave out the batches in it.",
         "If it comes again, lower the learning rate or clip gradients."),
        patience=1,
    ),
    LossDrift(
        "loss-drift",
        "three in four of the last 48 losses are above nine in ten of those of the best time, "
        "and 3 % of the way from the start is undone; silent where a cycle of the learning rate "
        "begins anew",
        "warning", frozenset({q.LOSS}),
        "Page 1954, Sec. 2",
        ("Look at what has changed since the best step: decay, the schedule, the data.",
         "Go back to a checkpoint of that step; if decay is large, lower it."),
        patience=1,
    ),
    RateJump(
        "rate-jump",
        "the learning rate is three times above a plateau of 30 steps",
        "warning", frozenset({q.RATE}),
        "Cohen et al. 2021, Sec. 2",
        ("Look at the schedule: the rate rises after it had settled.",),
        patience=1,
    ),
    Change(
        "gradient-jump",
        "the gradient of a layer has 8 times its usual norm while the loss rises",
        "warning", frozenset({q.GRADIENT_NORM}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Clip gradients to their usual norm.", "Look at the batches since this step."),
        quantity=q.GRADIENT_NORM, up=True, usual=8.0, score=6.0, first=1.5,
        words="the gradient is {times} times its usual norm",
    ),
    Change(
        "large-updates",
        "updates are 5 times as large beside their weights as usual while the loss rises",
        "warning", frozenset({q.UPDATE_RATIO}),
        "You, Gitman & Ginsburg 2017, Sec. 4",
        ("Lower the learning rate, or warm it up.",),
        quantity=q.UPDATE_RATIO, up=True, usual=5.0, beyond=0.02, score=5.0,
        words="one step changes the weights by {value} of their norm, {times} times the usual",
    ),
    Change(
        "signal-jump",
        "what a layer reads has 20 times its usual mean square while the loss rises",
        "warning", frozenset({q.MEAN_SQUARE}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",),
        quantity=q.MEAN_SQUARE, up=True, usual=20.0, score=6.0,
        words="what the layer reads is {times} times its usual size (mean square)",
    ),
    Change(
        "inputs-changed",
        "what the first layer reads is 20 times its usual mean square",
        "warning", frozenset({q.MEAN_SQUARE}),
        "LeCun et al. 1998, Sec. 4.3",
        ("Look at where the batches since this step come from, and how they are scaled.",),
        quantity=q.MEAN_SQUARE, up=True, usual=20.0, score=6.0, alone=True, first_site=True,
        patience=1,
        words="what the first layer reads is {times} times its usual size (mean square)",
    ),
    Change(
        "signal-loss",
        "what a layer reads has a twentieth of its usual mean square while the loss rises",
        "warning", frozenset({q.MEAN_SQUARE}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",
         "If weight decay is large, lower it."),
        quantity=q.MEAN_SQUARE, up=False, usual=20.0, score=6.0,
        words="what the layer reads has shrunk to 1/{times} of its usual size (mean square)",
    ),
    Change(
        "rank-collapse",
        "rows differ by a quarter of what they did, and by less than 0.15 of their size",
        "warning", frozenset({q.RELATIVE_VARIATION}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity=q.RELATIVE_VARIATION, up=False, first=4.0, beyond=0.15,
        words="rows differ from their mean by {value} of their size, {first} at first: all samples "
        "look alike",
    ),
    Change(
        "rank-collapse-of-directions",
        "rows differ in 1.6 directions or fewer, a quarter of those at first",
        "warning", frozenset({q.CENTRED_PARTICIPATION_RATIO}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity=q.CENTRED_PARTICIPATION_RATIO, up=False, first=4.0, beyond=1.6,
        words="samples differ in {value} directions, {first} at first",
    ),
    Change(
        "dying-units",
        "more than half of the units are dead, and a quarter more than at first",
        "warning", frozenset({q.DEAD_UNITS}),
        "Lu et al. 2019, Sec. 3",
        ("Lower the learning rate; units that are zero for every sample do not come back.",
         "Use a leaky activation, or normalise before it."),
        alone=True, quantity=q.DEAD_UNITS, up=True, first=0.25, beyond=0.5,
        words="{value} of the units are zero for every sample, {first} at first",
    ),
    Change(
        "saturating-units",
        "more than half of what an activation writes is at an end of its range, and a quarter "
        "more than at first",
        "warning", frozenset({q.SATURATED_SHARE}),
        "Glorot & Bengio 2010, Sec. 3",
        ("Lower the learning rate or the scale of the weights before, or normalise.",),
        alone=True, quantity=q.SATURATED_SHARE, up=True, first=0.25, beyond=0.5,
        words="{value} of what the activation writes is at an end of its range, {first} at first",
    ),
    Change(
        "attention-collapse",
        "the entropy of attention is below 0.1, and 0.3 below that at first, while the loss "
        "rises or is still what it was at first",
        "warning", frozenset({q.ATTENTION_ENTROPY}),
        "Zhai et al. 2023, Sec. 3",
        ("Normalise queries and keys, or lower the learning rate.",),
        unlearned=True, quantity=q.ATTENTION_ENTROPY, up=False, first=0.3, beyond=0.1,
        words="each query looks at few keys: the entropy is {value} of the most, {first} at first",
    ),
    Change(
        "statistics-drift",
        "batch and running statistics are 4 times as far apart as usual while the loss rises",
        "warning", frozenset({q.STATISTICS_DRIFT}),
        "Ioffe & Szegedy 2015, Sec. 3.1",
        ("Raise the momentum of batch normalisation, or lower the learning rate.",
         "Look whether the batches since this step come from other data."),
        quantity=q.STATISTICS_DRIFT, up=True, usual=4.0, beyond=0.75, score=5.0,
        words="batch and running statistics are {value} standard deviations apart, {times} times "
        "as far as usual",
    ),
    Change(
        "decaying-weights",
        "weights are a quarter of what they were",
        "warning", frozenset({q.FROBENIUS_NORM}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower weight decay: it takes more than the gradient gives.",),
        alone=True, quantity=q.FROBENIUS_NORM, up=False, first=4.0, patience=3,
        words="the weights have shrunk to 1/{from_first} of what they were",
    ),
    Change(
        "growing-weights",
        "weights are 3 times as large as usual while the loss rises",
        "warning", frozenset({q.FROBENIUS_NORM}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower the learning rate, or look at what changes these weights besides the optimiser.",),
        quantity=q.FROBENIUS_NORM, up=True, usual=3.0, score=5.0, patience=1,
        words="the weights are {times} times as large as usual, and the loss rises",
    ),
    Change(
        "weights-out-of-bulk",
        "the stable rank is below 2, and a quarter of that at first",
        "warning", frozenset({q.STABLE_RANK}),
        "Le & Jegelka 2022, Thm. 1; Martin & Mahoney 2021, Sec. 3",
        ("Lower the learning rate, or bound the spectral norm of this layer.",),
        alone=True, quantity=q.STABLE_RANK, form="matrix", up=False, first=4.0, beyond=2.0,
        patience=1,
        words="one direction has outgrown the others: stable rank {value}, {first} at first",
    ),
    Frozen(
        "frozen-weights",
        "updates fall a thousandfold beyond what the rate explains, or the rate drops to nothing "
        "at once",
        "warning", frozenset({q.UPDATE_NORM, q.RATE}),
        "arithmetic",
        ("Look at the learning rate's schedule and at what the optimiser is handed.",),
    ),
    PlasticityLoss(
        "plasticity-loss",
        "units die, updates are a tenth of what they were, the loss does not fall",
        "warning", frozenset({q.DEAD_UNITS, q.UPDATE_RATIO}),
        "Dohare et al. 2024; Lyle et al. 2023",
        ("Reset dead units or regularise towards the initial weights.",),
        patience=3,
    ),
    Diverging(
        "rate-beyond-edge",
        "the learning rate is twice what the sharpness bears, or above it while the loss rises",
        "warning", frozenset({q.RATE_TIMES_SHARPNESS}),
        "Cohen et al. 2021, Sec. 2",
        ("Lower the learning rate below the edge, or warm it up more slowly.",),
        patience=1,
    ),
    AtOdds(
        "decay-at-odds",
        "of two layers that undo one another's scale and decay at different speeds, one has nine "
        "times the other's squared norm, and decay explains how they parted",
        "warning", frozenset({q.LAYER_IMBALANCE}),
        "Le & Jegelka 2022, Sec. 3",
        ("Give both layers one weight decay: of one side alone it moves scale to the other.",),
        patience=3,
    ),
    Settled(
        "dimension-settled",
        "a note: participation ratios of all layers have changed twofold since the start, and "
        "vary by less than a tenth",
        "note", frozenset({q.CENTRED_PARTICIPATION_RATIO}),
        "Jacot 2023, Sec. 3",
        ("Nothing need be done: the network has settled on how many dimensions it uses.",),
    ),
)  # fmt: skip
KINDS = tuple(Kind(rule.name, rule.speaks, rule.source) for rule in RULES)
ALARMS = tuple(kind.name for kind in KINDS)
