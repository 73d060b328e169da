"""Every alarm, listed by hand, with the thresholds that were measured (docs/watching.md)."""

from sigmascope.watching.alarms.changes import Change
from sigmascope.watching.alarms.courses import (
    Diverging,
    Frozen,
    Growing,
    LossSpike,
    NotFinite,
    PlasticityLoss,
    RateJump,
    Settled,
)
from sigmascope.watching.alarms.signs import Rule

RULES: tuple[Rule, ...] = (
    NotFinite(
        "non-finite", "error",
        frozenset({"loss", "gradient norm", "Frobenius norm", "mean square", "update norm"}),
        "IEEE 754",
        ("Stop, and go back to the last checkpoint before this step.",
         "Look at the batch of this step; lower the rate or clip gradients if the batch is sound."),
        patience=1,
    ),
    Growing(
        "overflow-ahead", "error", frozenset({"gradient norm", "mean square", "Frobenius norm"}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Lower the learning rate, or clip gradients to their usual norm.",
         "If one layer grows alone, normalise before it."),
        patience=1,
    ),
    LossSpike(
        "loss-spike", "warning", frozenset({"loss"}),
        "Chowdhery et al. 2022, Sec. 5.1",
        ("Go back to a checkpoint before the spike and leave out the batches in it.",
         "If it comes again, lower the learning rate or clip gradients."),
        patience=1,
    ),
    RateJump(
        "rate-jump", "warning", frozenset({"rate"}),
        "Cohen et al. 2021, Sec. 2",
        ("Look at the schedule: the rate rises after it had settled.",),
        patience=1,
    ),
    Change(
        "gradient-jump", "warning", frozenset({"gradient norm"}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Clip gradients to their usual norm.", "Look at the batches since this step."),
        quantity="gradient norm", up=True, usual=8.0, score=6.0,
        words="the gradient is {times} times its usual norm",
    ),
    Change(
        "large-updates", "warning", frozenset({"update ratio"}),
        "You, Gitman & Ginsburg 2017, Sec. 4",
        ("Lower the learning rate, or warm it up.",),
        quantity="update ratio", up=True, usual=5.0, beyond=0.02, score=5.0,
        words="one step changes the weights by {value} of their norm, {times} times the usual",
    ),
    Change(
        "signal-jump", "warning", frozenset({"mean square"}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",),
        quantity="mean square", up=True, usual=20.0, score=6.0,
        words="what the layer reads is {times} times its usual size (mean square)",
    ),
    Change(
        "inputs-changed", "warning", frozenset({"mean square"}),
        "LeCun et al. 1998, Sec. 4.3",
        ("Look at where the batches since this step come from, and how they are scaled.",),
        quantity="mean square", up=True, usual=20.0, score=6.0, alone=True, first_site=True,
        patience=1,
        words="what the first layer reads is {times} times its usual size (mean square)",
    ),
    Change(
        "signal-loss", "warning", frozenset({"mean square"}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",
         "If weight decay is large, lower it."),
        quantity="mean square", up=False, usual=20.0, score=6.0,
        words="what the layer reads has shrunk to 1/{times} of its usual size (mean square)",
    ),
    Change(
        "rank-collapse", "warning", frozenset({"relative variation"}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity="relative variation", up=False, first=4.0, beyond=0.15,
        words="rows differ from their mean by {value} of their size, {first} at first: all samples "
        "look alike",
    ),
    Change(
        "rank-collapse-of-directions", "warning", frozenset({"centred participation ratio"}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity="centred participation ratio", up=False, first=4.0, beyond=1.6,
        words="samples differ in {value} directions, {first} at first",
    ),
    Change(
        "dying-units", "warning", frozenset({"dead units"}),
        "Lu et al. 2019, Sec. 3",
        ("Lower the learning rate; units that are zero for every sample do not come back.",
         "Use a leaky activation, or normalise before it."),
        alone=True, quantity="dead units", up=True, first=0.25, beyond=0.5,
        words="{value} of the units are zero for every sample, {first} at first",
    ),
    Change(
        "saturating-units", "warning", frozenset({"saturated share"}),
        "Glorot & Bengio 2010, Sec. 3",
        ("Lower the learning rate or the scale of the weights before, or normalise.",),
        alone=True, quantity="saturated share", up=True, first=0.25, beyond=0.5,
        words="{value} of what the activation writes is at an end of its range, {first} at first",
    ),
    Change(
        "attention-collapse", "warning", frozenset({"attention entropy"}),
        "Zhai et al. 2023, Sec. 3",
        ("Normalise queries and keys, or lower the learning rate.",),
        unlearned=True, quantity="attention entropy", up=False, first=0.3, beyond=0.1,
        words="each query looks at few keys: the entropy is {value} of the most, {first} at first",
    ),
    Change(
        "statistics-drift", "warning", frozenset({"statistics drift"}),
        "Ioffe & Szegedy 2015, Sec. 3.1",
        ("Raise the momentum of batch normalisation, or lower the learning rate.",
         "Look whether the batches since this step come from other data."),
        quantity="statistics drift", up=True, usual=4.0, beyond=0.75, score=5.0,
        words="batch and running statistics are {value} standard deviations apart, {times} times "
        "as far as usual",
    ),
    Change(
        "decaying-weights", "warning", frozenset({"Frobenius norm"}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower weight decay: it takes more than the gradient gives.",),
        alone=True, quantity="Frobenius norm", up=False, first=4.0, patience=3,
        words="the weights have shrunk to 1/{from_first} of what they were",
    ),
    Change(
        "growing-weights", "warning", frozenset({"Frobenius norm"}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower the learning rate, or look at what changes these weights besides the optimiser.",),
        quantity="Frobenius norm", up=True, usual=3.0, score=5.0, patience=1,
        words="the weights are {times} times as large as usual, and the loss rises",
    ),
    Change(
        "weights-out-of-bulk", "warning", frozenset({"stable rank"}),
        "Le & Jegelka 2022, Thm. 1; Martin & Mahoney 2021, Sec. 3",
        ("Lower the learning rate, or bound the spectral norm of this layer.",),
        alone=True, quantity="stable rank", form="matrix", up=False, first=4.0, beyond=2.0,
        patience=1,
        words="one direction has outgrown the others: stable rank {value}, {first} at first",
    ),
    Frozen(
        "frozen-weights", "warning", frozenset({"update norm", "rate"}),
        "arithmetic",
        ("Look at the learning rate's schedule and at what the optimiser is handed.",),
    ),
    PlasticityLoss(
        "plasticity-loss", "warning", frozenset({"dead units", "update ratio"}),
        "Dohare et al. 2024; Lyle et al. 2023",
        ("Reset dead units or regularise towards the initial weights.",),
        patience=3,
    ),
    Diverging(
        "rate-beyond-edge", "warning", frozenset({"rate times sharpness"}),
        "Cohen et al. 2021, Sec. 2",
        ("Lower the learning rate below the edge, or warm it up more slowly.",),
        patience=1,
    ),
    Settled(
        "dimension-settled", "note", frozenset({"centred participation ratio"}),
        "Jacot 2023, Sec. 3",
        ("Nothing need be done: the network has settled on how many dimensions it uses.",),
    ),
)  # fmt: skip
ALARMS = tuple(rule.name for rule in RULES)
