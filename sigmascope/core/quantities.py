"""Every view and every quantity that can be read, declared once.

A quantity is its name, a string as readings and files have it, that knows what is measured, in
which views, which values it can take, how it is drawn, what is healthy and who defined it. Code
refers to the objects declared here; tables, the page and the documentation are made from them; a
profile takes no reading of a quantity that is not declared. Nothing heavy is imported, so that the
command line starts at once.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from sigmascope.core.guard import Refusal

View = Literal[
    "representations",
    "weights",
    "features",
    "gradients",
    "setup",
    "balances",
    "bottleneck",
    "conditioning",
    "training",
    "scan",
    "watch",
    "script",
]
ALL: Final[tuple[View, ...]] = ("representations", "weights", "features", "gradients", "setup")
QUICK: Final[tuple[View, ...]] = ("setup",)  # a few passes, and most of what arithmetic shows
TRAINING: Final[View] = "training"  # read of training, not of a model: `diagnosis` adds it
SCAN: Final[View] = "scan"  # read of checkpoints, without a model
WATCH: Final[View] = "watch"  # read while a model trains, of its own batches
SCRIPT: Final[View] = "script"  # read of a training script that runs as it is
EVERY: Final[tuple[View, ...]] = tuple(  # of a model, `ALL` first
    v for v in get_args(View) if v not in (TRAINING, SCAN, WATCH, SCRIPT)
)


def wanted_views(views: Collection[View]) -> list[View]:
    """Views by name, in their usual order.

    Raises:
        Refusal: If one is unknown, or there is none.
    """
    unknown = views if isinstance(views, str) else sorted(set(views) - set(EVERY))
    if unknown or not views:
        raise Refusal(
            f"`views` must be a list of some of {', '.join(EVERY)}, got {unknown or None!r}. "
            'Pass `views=["weights"]` for one of them.'
        )
    return [view for view in EVERY if view in views]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity(str):
    """One thing that can be measured, wherever it is read.

    Attributes:
        name: As readings and files have it.
        views: In which it is read.
        says: What it is, in one sentence without its full stop.
        symbol: Its formula, in LaTeX; empty where words are plainer.
        least: No reading is below it.
        most: No reading is above it.
        range: The values it takes, in words; made from the two ends if not given.
        words: The words that it takes, where what is read is a fact and no number; empty else.
        unit: Of a reading; empty for a pure number.
        scale: On which axis it is drawn.
        family: Panel of the page that it shares with others in its unit; empty for one of its own.
        column: Heading in the terminal's table of layers; empty if it has no column there.
        compared: The end of the network at which it tells most of a remedy, `"first"` or `"last"`;
            empty if remedies are not compared by it.
        healthy: What is usual where training works, with where that was measured.
        source: Author and year; empty where it is arithmetic.
    """

    name: str
    views: tuple[View, ...]
    says: str
    symbol: str = ""
    least: float = 0.0
    most: float = math.inf
    range: str = ""
    words: str = ""
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"
    family: str = ""
    column: str = ""
    compared: Literal["first", "last", ""] = ""
    healthy: str = ""
    source: str = ""

    def __new__(cls, name: str, *_: Any, **__: Any) -> "Quantity":
        """A string: the name."""
        return str.__new__(cls, name)

    def __post_init__(self) -> None:
        """The range in words, where none was given."""
        if not self.range:
            ends = f"≥ {self.least:g}" if self.least > -math.inf else "any"
            if self.most < math.inf:
                ends = f"{self.least:g}" + (f" to {self.most:g}" if self.least < self.most else "")
            object.__setattr__(self, "range", self.words or ends)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """In files and other processes it is its name."""
        return str, (self.name,)


# The order is that of tables: first what has a column in the terminal's table of layers and its
# kin, the most telling first, then the rest by view.

PARTICIPATION_RATIO: Final = Quantity(
    "participation ratio",
    ("representations", "scan", "watch"),
    "how many directions the rows use, by energy",
    symbol=r"(\sum\sigma_i^2)^2/\sum\sigma_i^4",
    least=1,
    range="1 to rank",
    family="Dimension",
    column="partic. ratio",
    compared="last",
    healthy="above 1.1 at the last layer (docs/findings.md)",
    source="Daneshmand et al. 2020, Eq. (4)",
)
CENTRED_PARTICIPATION_RATIO: Final = Quantity(
    "centred participation ratio",
    ("representations", "watch"),
    "the same of the rows less their mean",
    least=1,
    range="1 to rank",
    family="Dimension",
    column="centred ratio",
    compared="last",
    healthy="above 6 at the last layer (docs/findings.md)",
)
MATRIX_RANK: Final = Quantity(
    "matrix rank",
    ("representations", "scan"),
    "singular values above a share of the largest",
    symbol=r"\#\{\sigma_i > \sigma_1 \cdot \max(\text{shape}) \cdot 10^{-7}\}",
    range="0 to min(shape)",
    family="Dimension",
    column="rank",
    compared="last",
    source="Daneshmand et al. 2020, footnote 2",
)
SOFT_RANK: Final = Quantity(
    "soft rank",
    ("representations",),
    "singular values above a fixed size; depends on the scale",
    symbol=r"\#\{\sigma_i^2/n \ge 1/2\}",
    range="0 to min(shape)",
    family="Dimension",
    source="Daneshmand et al. 2020, Eq. (3)",
)
INPUTS_READ: Final = Quantity(
    "inputs read",
    ("representations",),
    "at a layer that reads nothing of the batch, as learned queries or a first state: "
    "what comes from the batch",
    most=0,
    healthy="not read: layers read what comes from the batch",
)
EFFECTIVE_RANK: Final = Quantity(
    "effective rank",
    ("representations", "weights", "scan", "watch"),
    "the exponential of the entropy of the singular values",
    symbol=r"\exp(-\sum p_i\ln p_i),\ p_i=\sigma_i/\sum_j\sigma_j",
    least=1,
    range="1 to rank",
    family="Dimension",
    source="Roy & Vetterli 2007",
)
MEAN_SQUARE: Final = Quantity(
    "mean square",
    ("representations", "watch"),
    "mean of the squared entries",
    unit="activation²",
    scale="log",
    column="mean square",
    compared="last",
    healthy="within a factor of 1e5 over the depth (docs/findings.md)",
    source="He et al. 2015, Sec. 2.2",
)
ADJOINT_NORM: Final = Quantity(
    "adjoint norm",
    ("features",),
    "size of the derivative of the outputs by what the layer writes",
    symbol=r"(\tfrac1n\sum_i\lVert J_i\rVert_F^2)^{1/2}",
    unit="output / activation",
    scale="log",
    column="adjoint norm",
    compared="first",
    healthy="within a factor of 1e4 over the depth (docs/findings.md)",
    source="Glorot & Bengio 2010, Sec. 4.2.1",
)
NTK_TRACE: Final = Quantity(
    "NTK trace",
    ("features",),
    "the layer's share of the trace of the neural tangent kernel, over its trainable parameters",
    symbol=r"\tfrac1n\sum_{i,k}\lVert\partial f_k(x_i)/\partial\theta\rVert^2",
    unit="output² / weight²",
    scale="log",
    column="NTK trace",
    compared="first",
    healthy="1e2 to 1e5 in sum over the layers; not below 1e-6 or above 1e9 (docs/findings.md)",
    source="Jacot et al. 2018",
)
TANGENT_VARIATION: Final = Quantity(
    "tangent variation",
    ("representations",),
    "how far what a step of all weights changes in the output of each sample differs from the mean "
    "of all samples, over its size, for random steps; read where the outputs are alike to 0.01",
    symbol=r"\lVert Jv-\overline{Jv}\rVert_F/\lVert Jv\rVert_F",
    most=1,
    scale="log",
    healthy="above 0.01: training can part samples that are alike (docs/findings.md)",
    source="Jacot et al. 2018, for J",
)
RELATIVE_VARIATION: Final = Quantity(
    "relative variation",
    ("representations", "watch"),
    "how far rows differ from their mean, over their size; known up to four roundings of "
    "the model's precision",
    symbol=r"\lVert H-\bar H\rVert_F/\lVert H\rVert_F",
    most=1,
    scale="log",
    column="rel. variation",
    compared="last",
    healthy="above 0.01 at the last layer (docs/findings.md)",
)
SPECTRAL_NORM: Final = Quantity(
    "spectral norm",
    ("weights", "scan", "watch"),
    "the largest singular value",
    symbol=r"\sigma_1",
    unit="weight",
    scale="log",
    family="Norm",
    column="weight norm",
    source="Golub & Van Loan 2013, Sec. 2.3.3",
)
FROBENIUS_NORM: Final = Quantity(
    "Frobenius norm",
    ("weights", "scan", "watch"),
    "root of the sum of the squared entries",
    symbol=r"(\sum\sigma_i^2)^{1/2}",
    unit="weight",
    scale="log",
    family="Norm",
    source="Golub & Van Loan 2013, Sec. 2.3.1",
)
DEAD_UNITS: Final = Quantity(
    "dead units",
    ("representations", "watch"),
    "share of the columns that are zero in every row (channels where there are "
    "positions) of every call of the layer; not at the first layer, nor at the output; `form` is "
    '"behind zeros" where fewer are once weights that start at zero have moved, "with a slope" '
    "where zeros have a derivative by weights, as spikes with one that is made up",
    most=1,
    column="dead units",
    healthy="below 0.75 (docs/findings.md)",
    source="Lu et al. 2019, Sec. 3",
)
STABLE_RANK: Final = Quantity(
    "stable rank",
    ("weights", "scan", "watch"),
    "how many directions share the squared norm, as seen from the largest",
    symbol=r"\sum\sigma_i^2/\sigma_1^2",
    least=1,
    range="1 to rank",
    family="Dimension",
    column="stable rank",
    source="Rudelson & Vershynin 2007",
)
NON_FINITE_ENTRIES: Final = Quantity(
    "non-finite entries",
    ("representations", "features", "setup", "scan", "watch"),
    "infinities and nan in what a layer reads, in a derivative, or in a parameter's "
    "gradient, in place of all other readings of it",
    least=1,
    healthy="none",
    source="IEEE 754",
)
ADJOINT_RANK: Final = Quantity(
    "adjoint rank",
    ("features",),
    "mean over samples of the numerical rank of the derivative",
    range="0 to min(outputs, width)",
    family="Dimension",
    source="Golub & Van Loan 2013, Sec. 5.4.1",
)
ADJOINT_LOG_PSEUDO_DETERMINANT: Final = Quantity(
    "adjoint log pseudo-determinant",
    ("features",),
    "mean over samples whose derivative is not zero of the sum of the logarithms of its "
    "singular values above the rank threshold",
    symbol=r"\tfrac1n\sum_i\sum\ln\sigma(J_i)",
    least=-math.inf,
    unit="nats",
    source="Minka 2000",
)
CONDITION_NUMBER: Final = Quantity(
    "condition number",
    ("weights", "scan"),
    "the largest singular value over the smallest above the rank threshold; `how` says "
    "how many were dropped",
    symbol=r"\sigma_1/\sigma_r",
    least=1,
    scale="log",
    source="Golub & Van Loan 2013, Sec. 5.3.4",
)
MEAN_SHIFT: Final = Quantity(
    "mean shift",
    ("weights", "scan"),
    "singular value of the constant part over the largest that independent entries of "
    "spread $s$ would give; above 1 it sticks out",
    symbol=r"\lvert\mathrm{mean}\rvert \sqrt{mn} / (s (\sqrt m + \sqrt n))",
    scale="log",
    healthy="about 1/√width drawn at random, below 0.5 in trained transformers (docs/findings.md)",
    source="Bai & Yin 1993",
)
MINIMUM_COS: Final = Quantity(
    "minimum |cos|",
    ("gradients",),
    "least absolute cosine between the last layer's gradients of two samples, over pairs "
    "and rows of its weight",
    symbol=r"\min\,\lvert\cos(\nabla_{w_k}\ell_i,\nabla_{w_k}\ell_j)\rvert",
    most=1,
    family="Cosine between gradients",
    healthy="below 0.99 (docs/findings.md)",
    source="Daneshmand et al. 2020, Prop. 19",
)
MEAN_COS: Final = Quantity(
    "mean |cos|",
    ("gradients",),
    "the same in the mean",
    most=1,
    family="Cosine between gradients",
    source="Daneshmand et al. 2020, Prop. 19",
)
LOSS: Final = Quantity(
    "loss",
    ("gradients", "watch"),
    "what was passed to `Watch.step`; `form` `largest`: the largest since the last reading",
    least=-math.inf,
    scale="log",
)
PROBABILITY_OF_FITTING: Final = Quantity(
    "probability of fitting",
    ("setup",),
    "that plain training fits these data, from some dozens of steps on copies; added by "
    "`diagnosis.trainability.foretold`, and by the command line where there are targets",
    most=1,
    healthy="above 0.5 ([trainability](trainability.md))",
    source="[trainability](trainability.md)",
)
GAIN: Final = Quantity(
    "gain",
    ("setup",),
    "root mean square of what a layer writes over that of what it reads, both less their "
    "mean over rows: how much it enlarges differences",
    scale="log",
    healthy="0.6 to 1.4; of most layers above 4 or below 0.02 is a finding (docs/findings.md)",
    source="He et al. 2015, Sec. 2.2",
)
WRITTEN_VARIATION: Final = Quantity(
    "written variation",
    ("setup",),
    "relative variation of what a layer writes, before normalisation and activation",
    most=1,
    scale="log",
    healthy="above 1e-3 before a batch normaliser (docs/findings.md)",
)
DENORMAL_ENTRIES: Final = Quantity(
    "denormal entries",
    ("setup",),
    "of what a layer writes, numbers below the smallest normal one of their format",
    least=1,
    healthy="none",
    source="IEEE 754",
)
SATURATED_SHARE: Final = Quantity(
    "saturated share",
    ("setup", "watch"),
    "of what a layer reads from a sigmoid or tanh (`form` names it), the share within a "
    "hundredth of an end of the range",
    most=1,
    healthy="below 0.5 (docs/findings.md)",
    source="Glorot & Bengio 2010, Sec. 3",
)
DISTINCT_UNITS: Final = Quantity(
    "distinct units",
    ("setup",),
    "share of the units that vary which are no copies of others; of a weight (`form` "
    '"matrix") whose rows are all equal, one over their number',
    most=1,
    healthy="1; half or less is a finding (docs/findings.md)",
    source="Goodfellow et al. 2016, Sec. 8.4",
)
BATCHES_SEEN: Final = Quantity(
    "batches seen",
    ("setup",),
    "at a batch normaliser in evaluation mode with the statistics that it was built with",
    most=0,
    healthy="not read: statistics come from batches",
    source="Ioffe & Szegedy 2015, Sec. 3.1",
)
BRANCH_STRENGTH: Final = Quantity(
    "branch strength",
    ("setup",),
    "root mean square of a residual branch over that of the stream that it is added to, "
    "at the layer that writes the branch last",
    scale="log",
    healthy="about 1/√depth or less (docs/findings.md)",
    source="Zhang et al. 2019, Sec. 2",
)
FROZEN_ENTRIES: Final = Quantity(
    "frozen entries",
    ("setup",),
    "numbers of a parameter that do not require gradients",
    least=1,
)
RELATIVE_GRADIENT: Final = Quantity(
    "relative gradient",
    ("setup",),
    "size of the gradient over that of the parameter, for each trained one that is not "
    'zero; `form` is "behind zeros" where it is zero only because of weights that start '
    "at zero",
    symbol=r"\lVert\nabla_\theta\ell\rVert/\lVert\theta\rVert",
    unit="loss / weight²",
    scale="log",
)
GRADIENT_OF_A_ZERO_WEIGHT: Final = Quantity(
    "gradient of a zero weight",
    ("setup",),
    'size of the gradient for each trained parameter that is zero; `form` is "cut" where '
    'it would be zero for any value, "behind zeros" where it is zero until others have moved',
    symbol=r"\lVert\nabla_\theta\ell\rVert",
    unit="loss / weight",
    scale="log",
)
FORGOTTEN_SCALE: Final = Quantity(
    "forgotten scale",
    ("setup",),
    "outputs stay within 1 % of their spread where inputs are divided by their size; asked where "
    "that is far from one",
    words="`yes`",
    healthy="not read",
)
INPUT_SIZE: Final = Quantity(
    "input size",
    ("setup",),
    "root mean square of what the first layer reads",
    unit="input",
    scale="log",
    healthy="near 1; above 30 or below 0.01 is a finding (docs/findings.md)",
    source="LeCun et al. 1998, Sec. 4.3",
)
INPUT_SPREAD: Final = Quantity(
    "input spread",
    ("setup",),
    "root mean square of the differences between samples and their mean in what the first"
    " layer reads",
    unit="input",
    scale="log",
    healthy=(
        "of the order of the input size; below a twentieth of it is a finding where training "
        "is better without the mean (docs/findings.md)"
    ),
    source="LeCun et al. 1998, Sec. 4.3",
)
TARGET_SIZE: Final = Quantity(
    "target size",
    ("setup",),
    "root mean square of targets that are values",
    unit="target",
    scale="log",
    healthy="near 1; above 100 or below 0.01 is a finding (docs/findings.md)",
    source="LeCun et al. 1998, Sec. 4.5",
)
FIRST_LOSS_OVER_A_CONSTANTS: Final = Quantity(
    "first loss over a constant's",
    ("setup",),
    "loss before training over the least that one output for all samples would have",
    scale="log",
    healthy="near 1; above 20 is a finding (docs/findings.md)",
    source="Karpathy 2019",
)
LOSS_OF_ZEROS: Final = Quantity(
    "loss of zeros",
    ("setup",),
    "loss of outputs that are all zero",
    least=-math.inf,
)
OUT_OF_REACH: Final = Quantity(
    "out of reach",
    ("setup",),
    "how far the least loss that the operations behind the last weight leave in reach is "
    "above the least of all outputs, in steps from there to the best constant's; `form` "
    "names the last operation",
    healthy="below 0.05 (docs/findings.md)",
)
VARIANCE_OUT_OF_REACH: Final = Quantity(
    "variance out of reach",
    ("setup",),
    "share of the targets' variance beyond the width of the last layer's input",
    most=1,
    healthy="below 0.05 (docs/findings.md)",
    source="Eckart & Young 1936",
)
AFFINE_NETWORK: Final = Quantity(
    "affine network",
    ("setup",),
    "what the last weight writes is an affine function of the inputs, though there are "
    "several layers",
    words="`yes`",
)
SILENT_SAMPLES: Final = Quantity(
    "silent samples",
    ("setup",),
    "share of the samples that reach a layer as zeros, in every call of it",
    most=1,
    healthy="below 0.25",
)
STEPS: Final = Quantity(
    "steps",
    ("setup",),
    "places of a sequence that a recurrent layer reads one after the other",
    least=1,
)
READ_FILLING: Final = Quantity(
    "read filling",
    ("setup",),
    "share of the places of a recurrent layer's input that repeat the last one to the ends of rows "
    "of unequal length, where outputs change with what stands there",
    most=1,
    healthy="not read: rows are packed, or the state of their own last place is taken",
)
STEP_FACTOR: Final = Quantity(
    "step factor",
    ("setup",),
    "by what factor the gradient of a recurrent layer's last state by its inputs grows "
    "with every step back",
    healthy=(
        "near 1; a thousandfold over all steps, or a millionth, is a finding (docs/findings.md)"
    ),
    source="Pascanu, Mikolov & Bengio 2013, Eq. (5)",
)
DISTINCT_SAMPLES: Final = Quantity(
    "distinct samples",
    ("setup",),
    "different samples in the batch, as they are handed to the model",
    least=1,
)
CONTRADICTED_TARGETS: Final = Quantity(
    "contradicted targets",
    ("setup",),
    "share of the targets' variance between samples whose inputs are the same, which no "
    "function of the inputs can tell",
    most=1,
    healthy="below 0.5 (docs/findings.md)",
    source="Bishop 2006, Eq. (1.90)",
)
DISTINCT_TARGETS: Final = Quantity(
    "distinct targets",
    ("setup",),
    "different targets in the batch",
    least=1,
)
KIND_OF_TARGETS: Final = Quantity(
    "kind of targets",
    ("setup",),
    "what targets are, told by their values and by the shape of the outputs",
    words="`classes`, `one of many`, `several of many`, `yes or no`, `ids as values`, `values`",
)
MISPLACED_MASKS: Final = Quantity(
    "misplaced masks",
    ("setup",),
    "share of the samples whose mask, flipped, turned or shifted, agrees twice as well with the "
    "brightness of their image as where it is",
    most=1,
    healthy="below 0.5; not read where masks agree with their images nowhere",
)
SPREAD_TARGETS: Final = Quantity(
    "spread targets",
    ("setup",),
    "the loss compares targets of fewer numbers with the outputs number by number, and "
    "spreads them",
    words="`yes`",
    healthy="not read",
)
TARGETS_NOT_READ: Final = Quantity(
    "targets not read",
    ("setup",),
    "the loss is the same to the last bit whatever the targets are, as of losses that "
    "compare outputs with one another",
    words="`yes`",
)
OMITTED_CLASS: Final = Quantity(
    "omitted class",
    ("setup",),
    "share of the targets that are a class, `form`, whose outputs have no gradient, "
    "though it is neither filling nor left out by its number",
    most=1,
    healthy="not read",
)
LOSS_OF_RIGHT_ANSWERS: Final = Quantity(
    "loss of right answers",
    ("setup",),
    "the loss of outputs that are the targets, where it is above that of outputs that are not",
    least=-math.inf,
    healthy="not read",
)
LOSS_OF_WRONG_ANSWERS: Final = Quantity(
    "loss of wrong answers",
    ("setup",),
    "the loss of outputs that contradict the targets, where it is below that of the "
    "targets themselves",
    least=-math.inf,
    healthy="not read",
)
LOSS_OF_LOGARITHMS: Final = Quantity(
    "loss of logarithms",
    ("setup",),
    "the loss is linear in the output of the class that holds and knows no other: outputs"
    " must be logarithms of probabilities",
    words="`yes`",
)
TAKEN_BY_THE_LOSS: Final = Quantity(
    "taken by the loss",
    ("setup",),
    "whether outputs must be probabilities for the loss",
    words="`probabilities`, `any numbers`",
)
COUNTED_BY_THE_LOSS: Final = Quantity(
    "counted by the loss",
    ("setup",),
    "what of a row of outputs counts for the loss: each number by itself, the differences between "
    "scores, the ratios of shares, or the one of the class that holds",
    words="`each`, `scores`, `shares`, `picked`",
)
INDIFFERENT_LOSS: Final = Quantity(
    "indifferent loss",
    ("setup",),
    "the gradient of the loss is zero at all outputs, or the same for every sample "
    "whatever its target",
    words="`constant` (`constant, of one column` where an output is one number), `in steps`, "
    "`the same slope for every sample`",
    healthy="not read",
)
UNBOUNDED_LOSS: Final = Quantity(
    "unbounded loss",
    ("setup",),
    "some outputs have a loss below a thousand times its size: nothing seems to hold it from below",
    words="`yes`, or how it falls",
    healthy="not read",
)
LABELS_ARE_THE_BEST_OUTPUTS: Final = Quantity(
    "labels are the best outputs",
    ("setup",),
    "outputs of 0 and 1, as the labels are, have the least loss: of probabilities or of "
    "values, not of scores",
    words="`yes`",
)
LEAST_LOSS: Final = Quantity(
    "least loss",
    ("setup",),
    "the least that is found over all outputs, by quasi-Newton steps",
    least=-math.inf,
)
LEAST_LOSS_OF_A_CONSTANT: Final = Quantity(
    "least loss of a constant",
    ("setup",),
    "the least that is found over outputs that are the same for every sample",
    least=-math.inf,
)
LAST_OPERATION: Final = Quantity(
    "last operation",
    ("setup",),
    "what the model does behind its last weight, where that is known",
    words="its name, or `none`",
)
LEAST_OUTPUT: Final = Quantity(
    "least output",
    ("setup",),
    "no output is below this, whatever the weights before the last operation",
    least=-math.inf,
)
GREATEST_OUTPUT: Final = Quantity(
    "greatest output",
    ("setup",),
    "no output is above this, whatever the weights before the last operation",
    least=-math.inf,
)
CONSTANT_OUTPUT: Final = Quantity(
    "constant output",
    ("setup",),
    "the last operation makes the same of everything",
    words="its name",
    healthy="not read",
)
ROWS_THAT_SUM_TO_ONE: Final = Quantity(
    "rows that sum to one",
    ("setup",),
    "each row of outputs does, whatever the weights",
    words="the last operation",
)
WRONG_AT_THE_BEST: Final = Quantity(
    "wrong at the best",
    ("setup",),
    "share of the rows whose class is wrong even at the least loss in reach",
    most=1,
    healthy="not read",
)
TARGET_SIGNAL: Final = Quantity(
    "target signal",
    ("setup",),
    "how much better than permuted targets the five nearest samples, or ridge regression "
    "of the samples left out, tell a target; the larger of the two, in standard "
    "deviations of 200 permutations; from 48 samples on, for each input, where none is rows of ids",
    least=-math.inf,
    unit="standard deviations",
    healthy="above 2; shuffled digits have -1.2 to 1.9 in 40 draws (docs/findings.md)",
    source="Zhang et al. 2017, Sec. 2",
)
TARGET_ALIGNMENT: Final = Quantity(
    "target alignment",
    ("setup",),
    "centred alignment between the Gram matrix of a representation and that of the "
    "targets, less what permuted targets have on average",
    least=-1,
    most=1,
    range="about 0 to 1",
    source="Cortes, Mohri & Rostamizadeh 2012, Definition 4",
)
POLYAK_STEP: Final = Quantity(
    "Polyak step",
    ("setup",),
    "the first loss over the squared gradient of all trained weights, in the model's own "
    "modes: the learning rate at which a plain step would take the whole loss away, to "
    "first order",
    symbol=r"\ell/\lVert\nabla\ell\rVert^2",
    unit="weight² / loss",
    scale="log",
    healthy="1e-3 to 1e3; beyond 1e-4 it confirms `tangent-size` (docs/findings.md)",
    source="Polyak 1987, Sec. 5.3",
)
NATS_OVER_EQUAL_SCORES: Final = Quantity(
    "nats over equal scores",
    ("setup",),
    "the first loss less that of equal scores for all classes, where the latter is the "
    "logarithm of their number",
    least=-math.inf,
    unit="nats",
    healthy="below 1; above 4.6 is a finding (docs/findings.md)",
    source="Karpathy 2019",
)
TOLD_BY_NEIGHBOURS_AT_MOST: Final = Quantity(
    "told by neighbours at most",
    ("setup",),
    "upper limit, at 95 %, of how much the targets of the five nearest samples tell of a "
    "sample's: 1 if they are equal, 0 by chance",
    least=-math.inf,
    healthy="above 0.05, or the targets may have nothing to do with the inputs (docs/findings.md)",
)
TOLD_OF_SMOOTH_TARGETS: Final = Quantity(
    "told of smooth targets",
    ("setup",),
    "what the same test tells of random linear functions of the inputs, in standard "
    "deviations: its power on these inputs",
    least=-math.inf,
    unit="standard deviations",
    healthy="above 5, or the test cannot tell (docs/findings.md)",
)
DEPENDENCE_ON_OTHER_SAMPLES: Final = Quantity(
    "dependence on other samples",
    ("setup",),
    "how far outputs change when the other samples of the batch are exchanged, over the "
    'differences between samples; `form` is "pairs" where there is an output for every '
    "pair of samples",
    scale="log",
    healthy="not read: each sample is treated by itself",
)
HIDDEN_DEPENDENCE: Final = Quantity(
    "hidden dependence",
    ("setup",),
    "how samples depend on others, or on their place among them, where exchanging others changes "
    "no output",
    words="in words",
    healthy="not read",
)
TIMES_CALLED: Final = Quantity(
    "times called",
    ("setup",),
    "at a layer to be trained that the model neither calls nor applies in another way",
    most=0,
    healthy="not read: every layer is used",
)
SPARE_WIDTH: Final = Quantity(
    "spare width",
    ("setup",),
    "at a layer that reads what another wrote with nothing but linear maps between "
    "(`form` names it): channels between them, over the lesser of what goes in and what "
    "comes out",
    scale="log",
    healthy="not read, or below 1: a narrow place on purpose",
    source="Baldi & Hornik 1989",
)
DROPPED_SHARE: Final = Quantity(
    "dropped share",
    ("setup",),
    "share of the numbers that dropout sets to zero in training mode, counted in one run",
    most=1,
    healthy="0 to 0.8; above 0.85 is a finding (docs/findings.md)",
    source="Srivastava et al. 2014",
)
BATCH_STATISTICS: Final = Quantity(
    "batch statistics",
    ("setup",),
    "batch normalisers that use the statistics of the batch: they are held constant under"
    " derivatives, and are not in training",
    least=1,
)
NORMALISED_SQUARE: Final = Quantity(
    "normalised square",
    ("setup",),
    "mean square of this batch after a batch normaliser in evaluation mode, before its "
    "scale: the median over channels",
    scale="log",
    healthy="near 1; half of them beyond 1/4 to 4 is a finding (docs/findings.md)",
    source="Ioffe & Szegedy 2015, Sec. 3.1",
)
SHARED_SQUARE: Final = Quantity(
    "shared square",
    ("setup",),
    "mean square, or variance where that is farther from 1, of what a batch normaliser makes of "
    "the input of one of its calls with statistics averaged over all calls of a pass, as it will "
    "in evaluation mode: the median over channels; read where it is called more than once",
    scale="log",
    healthy="near 1; beyond 1/4 to 4 is a finding (docs/findings.md)",
    source="Ioffe & Szegedy 2015, Sec. 3.1",
)
EVALUATION_SPREAD: Final = Quantity(
    "evaluation spread",
    ("setup",),
    "root mean square of the difference of two runs on the same batch in evaluation mode, over the "
    "differences between samples; read where random numbers are drawn; `form` is the function that "
    "was not told the mode, and its line, where there is one",
    scale="log",
    healthy="not read: evaluation can be repeated",
)
TARGETS_THAT_ARE_INPUTS: Final = Quantity(
    "targets that are inputs",
    ("setup",),
    "of rows of places, the share of the targets that are the input at the place of the "
    "output they are compared with",
    most=1,
    healthy="what chance gives",
)
SKIPPED_INPUTS: Final = Quantity(
    "skipped inputs",
    ("setup",),
    "the share of the targets that are the input two places on; read where most are, and fewer the "
    "next input",
    most=1,
    healthy="not read",
)
NEXT_INPUTS: Final = Quantity(
    "next inputs",
    ("setup",),
    "the share of the targets that are the input one place on",
    most=1,
    healthy="1 for models of the next token",
)
CHANCE_COPIES: Final = Quantity(
    "chance copies",
    ("setup",),
    "the larger of both shares for the inputs of other samples",
    most=1,
)
DEPENDENCE_ON_LATER_INPUTS: Final = Quantity(
    "dependence on later inputs",
    ("setup",),
    "how far outputs at earlier places change when inputs at later ones are exchanged, "
    "over the differences between samples; read where targets are the next inputs",
    scale="log",
    healthy="0",
    source="Vaswani et al. 2017, Sec. 3.2.3",
)
DEPENDENCE_ON_ORDER: Final = Quantity(
    "dependence on order",
    ("setup",),
    "how far outputs change when places between the first and the last are exchanged among them, "
    "over the differences between samples; read where ids are read by attention",
    scale="log",
    healthy="above 0, where the order of the ids matters",
    source="Vaswani et al. 2017, Sec. 3.5",
)
ATTENTION_GAP: Final = Quantity(
    "attention gap",
    ("setup",),
    "how far the weights by which an attention sums up values are from adding up to one, at most; "
    "read where attentions are written out; `form` is the line of the worst",
    healthy="0",
    source="Vaswani et al. 2017, Eq. 1",
)
UNREAD_SHARE: Final = Quantity(
    "unread share",
    ("setup",),
    "of the features of an input that differ between samples, the share that changes no output "
    "when it is given to another sample; read where it is not zero, and a loss is given; `form` is "
    "the mask that hides them, where it is one, and ids that fill rows do not count then",
    most=1,
    healthy="not read: every feature is used",
)
COUNTED_PADDING: Final = Quantity(
    "counted padding",
    ("setup",),
    "of the targets that count in the loss, the share that fill the ends of rows with one"
    " id (`form`) that stands nowhere else",
    most=1,
    healthy="not read, or below 0.05 (docs/findings.md)",
)
CONDITION_OF_LEARNING: Final = Quantity(
    "condition of learning",
    ("conditioning",),
    "ratio of the longest and the shortest axis of the loss in one layer's weights, from "
    "its Gauss-Newton matrix",
    least=1,
    scale="log",
    healthy="below 1e4 (docs/findings.md)",
    source="Riedi et al. 2022, Sec. 3, corrected",
)
LAYER_FACTOR: Final = Quantity(
    "layer factor",
    ("conditioning",),
    "the part of it that the layers behind and the loss make",
    least=1,
    scale="log",
    source="Riedi et al. 2022, Sec. 3, corrected",
)
DATA_FACTOR: Final = Quantity(
    "data factor",
    ("conditioning",),
    "the part that what the layer reads makes",
    least=1,
    scale="log",
    source="Riedi et al. 2022, Sec. 3, corrected",
)
IMBALANCE: Final = Quantity(
    "imbalance",
    ("balances",),
    "largest conserved number of a balance over the largest squared norm of its terms",
    range="0 to about 1",
    source="Le & Jegelka 2022, Theorem 1",
)
OPERATOR_TO_FROBENIUS_RATIO: Final = Quantity(
    "operator-to-Frobenius ratio",
    ("balances",),
    "share of the squared norm in one direction, the inverse of the stable rank",
    symbol=r"\lVert W\rVert^2/\lVert W\rVert_F^2",
    most=1,
    range="1/min(shape) to 1",
    source="Le & Jegelka 2022, Sec. 5",
)
ALIGNMENT: Final = Quantity(
    "alignment",
    ("balances", "scan"),
    "between neighbours with only linear maps between, how far what one writes most is "
    "what the other reads most",
    symbol=r"\langle v,u\rangle^2",
    most=1,
    source="Le & Jegelka 2022, (15)",
)
BALANCE_RATE: Final = Quantity(
    "balance rate",
    ("balances",),
    "how fast the gradient changes a balance that the forward pass makes constant, "
    "relative to its terms; evidence of the finding `wrong-backward`",
    healthy="0 up to rounding",
    source="Le & Jegelka 2022, Theorem 1",
)
BALANCE_DRIFT: Final = Quantity(
    "balance drift",
    ("balances", "watch"),
    "largest change of a conserved number since the watch began",
    unit="weight²",
    scale="log",
    source="Le & Jegelka 2022, Theorem 1",
)
SIGN_CHANGES: Final = Quantity(
    "sign changes",
    ("balances",),
    "share of the entries of a weight, or of the places of an activation, whose sign "
    "differs from the first look",
    most=1,
    source="Le & Jegelka 2022, Sec. 4",
)
WEIGHT_RANK: Final = Quantity(
    "weight rank",
    ("bottleneck", "watch"),
    "singular values of a weight above 0.1; the interval holds the counts at 0.2 and 0.05",
    symbol=r"\#\{\sigma_i(W)>0.1\}",
    range="0 to min(shape)",
    source="Jacot 2023, Sec. 3",
)
ISOMETRY_DISTANCE: Final = Quantity(
    "isometry distance",
    ("bottleneck",),
    "Frobenius distance of a weight to the nearest partial isometry of its weight rank",
    unit="weight",
    source="Jacot 2023, Theorem 6",
)
REPRESENTATION_RANK: Final = Quantity(
    "representation rank",
    ("bottleneck",),
    "the same count of a centred representation, with the same interval",
    symbol=r"\#\{\sigma_i(X/\sqrt n)>0.1\}",
    range="0 to min(shape)",
    source="Jacot 2023, Sec. 3",
)
TWO_COMPONENT_VARIANCE: Final = Quantity(
    "two-component variance",
    ("bottleneck",),
    "share of a centred representation's variance in its first two directions",
    most=1,
)
KERNEL_ANGLE: Final = Quantity(
    "kernel angle",
    ("bottleneck",),
    "angle between the centred Gram matrices of a representation and of the one before",
    most=1.5707963267948968,
    range=r"0 to $\pi/2$",
    unit="radians",
)
INNER_DIMENSION: Final = Quantity(
    "inner dimension",
    ("bottleneck",),
    r"the rank with the widest gap below it in the median singular values of $\partial "
    r"f/\partial x$ over the samples, each next to the largest and cut at a fiftieth of "
    r"it; the interval holds ranks with half as wide a gap",
    range="0 to min(shape)",
    source="Jacot 2023, Sec. 2",
)
JACOBIAN_RANK: Final = Quantity(
    "Jacobian rank",
    ("bottleneck",),
    r"singular values of $\partial f/\partial x$ above a tenth of the largest: median over"
    r" the samples, interval the middle half",
    range="0 to min(shape)",
    source="Jacot 2023, Sec. 2",
)
JACOBIAN_LOG_PSEUDO_DETERMINANT: Final = Quantity(
    "Jacobian log pseudo-determinant",
    ("bottleneck",),
    "sum of the logarithms of the same: median and middle half",
    least=-math.inf,
    unit="nats",
    source="Jacot 2023, Theorem 3",
)
NORM_EXCESS: Final = Quantity(
    "norm excess",
    ("bottleneck",),
    "per sample, what the squared norm of a plain stack has above its least: median and "
    "middle half",
    symbol=r"\sum\lVert W_l\rVert_F^2-\max_k(kL+2\log\lvert Jf(x)\rvert_k)",
    unit="weight²",
    source="Jacot 2023, Theorem 3",
)
NTK_TRACE_PER_LAYER: Final = Quantity(
    "NTK trace per layer",
    ("bottleneck",),
    "trace of the tangent kernel of a plain stack over its depth, biases included: median"
    " and middle half",
    symbol=r"\mathrm{Tr}\,\Theta(x,x)/L",
    unit="output² / weight²",
    source="Jacot 2023, Sec. 4",
)
BALANCE_DEFECT: Final = Quantity(
    "balance defect",
    ("bottleneck",),
    "largest difference between a neuron's squared in- and out-weights, over the largest of them",
    most=1,
    source="Jacot 2023, Sec. 2",
)

# Of training at the user's settings, and at others beside them (`form` says which).

STEPS_TRIED: Final = Quantity(
    "steps tried",
    ("training",),
    "steps of training that were made on a copy, at the user's settings",
)
PLANNED_STEPS: Final = Quantity(
    "planned steps",
    ("training",),
    "steps that the user means to make: epochs times batches in an epoch",
)
RATE: Final = Quantity(
    "rate",
    ("training", "watch"),
    "learning rate of a run",
)
LOSS_LEFT: Final = Quantity(
    "loss left",
    ("training",),
    "how much of the loss of the best constant is left after a run: 0 at the least loss "
    "of all outputs, 1 at that of the best constant; `form` says what the run has "
    "different from the user's settings",
    healthy="below 0.5 after some hundred steps",
)
LOSS_LEFT_BY_THEN: Final = Quantity(
    "loss left by then",
    ("training",),
    "the same at the user's settings after as many samples as the run of this `form` has seen",
)
SHARE_OF_STEPS: Final = Quantity(
    "share of steps",
    ("script",),
    "in how many of the steps of a script that were watched something was so",
    most=1,
)
DRAWN_SHARE: Final = Quantity(
    "drawn share",
    ("script",),
    "share of the samples of a data set that a sampler can draw",
    most=1,
)
LOSS_AVOIDED: Final = Quantity(
    "loss avoided",
    ("script",),
    "how much lower the loss of a script ended with one thing done otherwise, over what it began "
    "with; a paired interval over seeds, `form` says what was done",
    least=-math.inf,
    range="any",
)
ROUNDED_SHARE: Final = Quantity(
    "rounded share",
    ("script",),
    "of the numbers that have a gradient, the share that a step leaves as they were; `form` is "
    "their precision",
    most=1,
    healthy="0 to 0.5",
    source="Micikevicius et al. 2018, Sec. 3.1",
)
DERIVATIVE_GAP: Final = Quantity(
    "derivative gap",
    ("script",),
    "how far the gradient of a backward pass that is written by hand is from that of its forward "
    "pass, over its size",
    healthy="below 0.001",
)
BROKE_AT_STEP: Final = Quantity(
    "broke at step",
    ("training",),
    "the first step at which the loss of a run was not finite",
    healthy="not read",
)
LAST_FALL_OF_THE_LOSS: Final = Quantity(
    "last fall of the loss",
    ("training",),
    "share of the loss that the last quarter of the steps took off the quarter before, "
    "with twice its standard error",
    least=-math.inf,
)
SCORE: Final = Quantity(
    "score",
    ("training",),
    "accuracy, or share of the targets' variance explained, on the samples at hand at the"
    " end of a run",
    least=-1,
    most=1,
)
LOSS_LEFT_AT_THE_END: Final = Quantity(
    "loss left at the end",
    ("training",),
    "how much of the loss of the best constant is left after the planned steps: foretold "
    "where fewer were made",
)
LOSS_LEFT_ON_OTHERS: Final = Quantity(
    "loss left on others",
    ("training",),
    "how much of the loss of the best constant is left, at the end of the run at your "
    "settings, on samples that it was not trained on, where there are any",
)
PROBABILITY_AT_YOUR_SETTINGS: Final = Quantity(
    "probability at your settings",
    ("training",),
    "that training as planned on the samples measured gets under way (less than 0.55 of "
    "the loss of the best constant is left at the end), lower end: on others, which may "
    "say more of training on all; after 1200 steps where no plan is known",
    most=1,
    healthy="above 0.5",
)
ERROR_LEFT: Final = Quantity(
    "error left",
    ("training",),
    "how much of the best constant's loss is left at the end of a run of that part of the"
    " loss which compares outputs with targets, where other outputs have a part in the "
    "loss; `form` names the run",
)
STEPS_OF_AN_EPOCH: Final = Quantity(
    "steps of an epoch",
    ("training",),
    "batches in which the user's settings pass all samples once",
)
WEIGHTS_THAT_NO_MODULE_HOLDS: Final = Quantity(
    "weights that no module holds",
    ("training",),
    "trainable tensors that the loss depends on and that are no parameters of the model, "
    "as those of layers in a plain list; `form` names the first",
)
UNUSUAL_SETTINGS: Final = Quantity(
    "unusual settings",
    ("training",),
    "settings of the optimizer, but rate and weight decay, that are not as torch has them",
    words="the setting, and what is usual",
    healthy="not read",
)
MAXIMISES: Final = Quantity(
    "maximises",
    ("training",),
    "the optimizer is told to make larger what it is given",
    words="`yes`",
    healthy="not read",
)
WEIGHTS_LEFT_OUT: Final = Quantity(
    "weights left out",
    ("training",),
    "parameters that require gradients and that the optimizer does not hold",
    least=1,
    healthy="not read",
)
BATCHES_OF_ONE_CLASS: Final = Quantity(
    "batches of one class",
    ("setup",),
    "share of batches whose samples have one target, of a loader that gives samples as they lie",
    most=1,
    healthy="not read, or what mixed samples have",
)
THE_SAME_IF_MIXED: Final = Quantity(
    "the same if mixed",
    ("setup",),
    "the share of batches of one class that is to be expected of mixed samples",
    most=1,
)
WEIGHTS_HELD: Final = Quantity(
    "weights held",
    ("training",),
    "parameters that require gradients and that the optimizer holds, where it does not hold all",
    healthy="not read",
)

# Of the matrices of a checkpoint.

SPECTRAL_ENTROPY: Final = Quantity(
    "spectral entropy",
    ("scan",),
    "entropy of the normalised singular values, over that of equal ones",
    symbol=r"-\sum p_i\ln p_i/\ln\min(m,n),\ p_i=\sigma_i/\sum_j\sigma_j",
    most=1,
    source="Roy & Vetterli 2007",
)
ENERGY_RANK: Final = Quantity(
    "energy rank",
    ("scan",),
    "fewest directions that hold 99 % of the squared norm: what a factorisation of this "
    "rank leaves out is a tenth of the norm",
    symbol=r"\min\{k:\sum_{i\le k}\sigma_i^2\ge 0.99\sum\sigma_i^2\}",
    least=1,
    range="1 to rank",
    source="Eckart & Young 1936",
)
NOISE_LEVEL: Final = Quantity(
    "noise level",
    ("scan",),
    "root mean square of the entries of what is left without the spikes",
    unit="weight",
    scale="log",
    family="Noise",
    source="Johnstone 2001",
)
NOISE_DISTANCE: Final = Quantity(
    "noise distance",
    ("scan",),
    "largest gap between the distribution of the bulk and the law of Marchenko and Pastur"
    " (Kolmogorov)",
    most=1,
    source="Marchenko & Pastur 1967",
)
NOISE_EDGE: Final = Quantity(
    "noise edge",
    ("scan", "watch"),
    "largest singular value that noise of this level has with a chance of a hundredth at "
    "most, and that the same entries with random signs do not reach",
    unit="weight",
    scale="log",
    family="Noise",
    source="Johnstone 2001; Ma 2012; Hong, Sheng & Dobriban 2020",
)
RANDOM_BASELINE: Final = Quantity(
    "random baseline",
    ("scan",),
    "largest singular value of the same entries with random signs",
    unit="weight",
    scale="log",
    family="Noise",
    source="Hong, Sheng & Dobriban 2020",
)
SPIKES: Final = Quantity(
    "spikes",
    ("scan", "watch"),
    "singular values above the noise edge",
    range="0 to min(shape)",
    healthy="none before training",
    source="Johnstone 2001",
)
SPIKE_ENERGY: Final = Quantity(
    "spike energy",
    ("scan",),
    "share of the squared norm in the spikes",
    most=1,
    source="Johnstone 2001",
)
POWER_LAW_EXPONENT: Final = Quantity(
    "power-law exponent",
    ("scan",),
    "exponent of the density of the squared singular values above a threshold, by maximum"
    " likelihood; only where the fit is not rejected and enough of them stick out of the "
    "noise",
    symbol=r"\alpha:\ p(\lambda)\propto\lambda^{-\alpha}",
    least=1,
    source="Clauset, Shalizi & Newman 2009, (3.1)",
)
POWER_LAW_P_VALUE: Final = Quantity(
    "power-law p-value",
    ("scan",),
    "chance that values drawn from the fitted power law lie farther from it than these do",
    most=1,
    healthy="below 0.1 the fit is rejected",
    source="Clauset, Shalizi & Newman 2009, Sec. 4.1",
)
LARGEST_ENTRY: Final = Quantity(
    "largest entry",
    ("scan",),
    "the largest absolute entry over the root mean square of all",
    least=1,
    scale="log",
)
LONGEST_ROW: Final = Quantity(
    "longest row",
    ("scan",),
    "norm of the longest row, weights of one output, over the median of those that are not zero",
    least=1,
    scale="log",
)
LONGEST_COLUMN: Final = Quantity(
    "longest column",
    ("scan",),
    "norm of the longest column, weights of one input, over the median of those that are not zero",
    least=1,
    scale="log",
)
ZERO_ROWS: Final = Quantity(
    "zero rows",
    ("scan",),
    "share of the rows, outputs of the map, that are exactly zero",
    most=1,
)
ZERO_COLUMNS: Final = Quantity(
    "zero columns",
    ("scan",),
    "share of the columns, inputs of the map, that are exactly zero",
    most=1,
)
ZERO_ENTRIES: Final = Quantity(
    "zero entries",
    ("scan",),
    "share of the entries that are exactly zero",
    most=1,
)
SUBNORMAL_ENTRIES: Final = Quantity(
    "subnormal entries",
    ("scan",),
    "share of the entries that are below the smallest normal number of the format they "
    "are stored in",
    most=1,
)
SATURATED_ENTRIES: Final = Quantity(
    "saturated entries",
    ("scan",),
    "share of the entries at the largest number of the format they are stored in",
    most=1,
)
COPY_COSINE: Final = Quantity(
    "copy cosine",
    ("scan",),
    "cosine between two matrices of one shape, where it is near 1 or -1; of a matrix and "
    "another's transpose where `form` says *turned*",
    least=-1,
    most=1,
)
UNIT_IMBALANCE: Final = Quantity(
    "unit imbalance",
    ("scan",),
    "of two layers that meet, how far the squared norms of a unit's in- and out-weights "
    "are apart, over all units and over their sum",
    symbol=(
        r"\sum_u\lvert\lVert w^{in}_u\rVert^2-\lVert w^{out}_u\rVert^2\rvert/(\lVert "
        r"W_1\rVert_F^2+\lVert W_2\rVert_F^2)"
    ),
    most=1,
    source="Le & Jegelka 2022, Sec. 3; Du, Hu & Lee 2018, Thm. 2.1",
)
RELATIVE_CHANGE: Final = Quantity(
    "relative change",
    ("scan",),
    "Frobenius norm of the difference of two versions over that of the first",
    symbol=r"\lVert B-A\rVert_F/\lVert A\rVert_F",
    scale="log",
)
BEST_SCALE: Final = Quantity(
    "best scale",
    ("scan",),
    "factor by which the first version comes nearest to the second",
    symbol=r"\langle A,B\rangle/\lVert A\rVert_F^2",
    least=-math.inf,
)
TURNED_CHANGE: Final = Quantity(
    "turned change",
    ("scan",),
    "what of the relative change is left once the first version is scaled to fit",
    symbol=r"\lVert B-cA\rVert_F/\lVert A\rVert_F",
    scale="log",
)
CHANGE_NORM: Final = Quantity(
    "change norm",
    ("scan",),
    "largest singular value of the difference of two versions",
    unit="weight",
    scale="log",
    family="Norm",
)
CHANGE_STABLE_RANK: Final = Quantity(
    "change stable rank",
    ("scan",),
    "stable rank of the difference of two versions",
    least=1,
    range="1 to rank",
    source="Rudelson & Vershynin 2007",
)
CHANGE_SPIKES: Final = Quantity(
    "change spikes",
    ("scan",),
    "singular values of the difference of two versions above the noise edge of the difference",
    range="0 to min(shape)",
    source="Johnstone 2001",
)
CHANGE_SIZE: Final = Quantity(
    "change size",
    ("scan",),
    "Frobenius norm of the difference of two versions, whose squares add up over matrices",
    symbol=r"\lVert B-A\rVert_F",
    unit="weight",
    scale="log",
    family="Norm",
)
SPECTRAL_CHANGE: Final = Quantity(
    "spectral change",
    ("scan",),
    "largest singular value of the difference of two versions over that of the first",
    symbol=r"\lVert B-A\rVert_2/\lVert A\rVert_2",
    scale="log",
    source="Yang, Simon & Bernstein 2023, Cond. 1",
)
CHANGE_RANK: Final = Quantity(
    "change rank",
    ("scan",),
    "singular values of the difference of two versions to be taken off until no more is left than "
    "rounding of both to their format makes, in both norms",
    range="0 to min(shape)",
    source="Eckart & Young 1936; of rounding Bandeira & van Handel 2016, Thm. 1.1",
)
CHANGE_BY_ROUNDING: Final = Quantity(
    "change by rounding",
    ("scan",),
    "squared norm of what rounding two versions to their format makes on the average, over that of "
    "their difference; 1 and above where rounding may be all of it",
    scale="log",
)
CHANGE_IN_TOP_EIGHTH: Final = Quantity(
    "change in top eighth",
    ("scan",),
    "share of the squared norm of the difference of two versions in the largest eighth of its "
    "singular values",
    most=1,
)
CHANGE_IN_LEADING: Final = Quantity(
    "change in leading directions",
    ("scan",),
    "share of the squared norm of the difference of two versions between the leading left and "
    "right singular vectors of the first, as many as `form` says; by chance k²/(mn)",
    symbol=r"\lVert U_k^T(B-A)V_k\rVert_F^2/\lVert B-A\rVert_F^2",
    most=1,
    scale="log",
    source="Hu et al. 2022, Sec. 7.3",
)
LARGEST_ANGLE: Final = Quantity(
    "largest angle",
    ("scan",),
    "largest principal angle between the leading left singular vectors of two versions, "
    "over both sides; as many as `form` says",
    unit="radians",
    most=1.5707963267948966,
    source="Björck & Golub 1973",
)
INTRUDERS: Final = Quantity(
    "intruders",
    ("scan",),
    "leading directions of the second version whose cosine with each of the first's is below 0.6",
    range="0 to the number compared",
    source="Shuttleworth et al. 2024, Def. 1",
)
GRADIENT_NORM: Final = Quantity(
    "gradient norm",
    ("watch",),
    "norm of the gradient of a layer's parameters, as the optimizer is handed it: "
    "accumulated, unscaled, clipped",
    symbol=r"\|\nabla_W L\|_F",
    unit="loss/weight",
    scale="log",
    source="Pascanu, Mikolov & Bengio 2013",
)
UPDATE_NORM: Final = Quantity(
    "update norm",
    ("watch",),
    "norm of what one step of the optimizer added to a layer's parameters",
    symbol=r"\|\Delta W\|_F",
    unit="weight",
    scale="log",
    family="Norm",
)
UPDATE_RATIO: Final = Quantity(
    "update ratio",
    ("watch",),
    "norm of one step's update of a layer over the norm of its parameters",
    symbol=r"\|\Delta W\|_F/\|W\|_F",
    scale="log",
    healthy="1e-4 to 1e-2 (docs/watching.md)",
    source="You, Gitman & Ginsburg 2017, Sec. 4",
)
UPDATE_SPECTRAL_NORM: Final = Quantity(
    "update spectral norm",
    ("watch",),
    "largest singular value of what one step of the optimizer added to a weight; 0 where it "
    "did not move",
    symbol=r"\|\Delta W\|_2",
    unit="weight",
    scale="log",
    family="Norm",
    source="Yang, Simon & Bernstein 2023, Cond. 1",
)
UPDATE_SPECTRAL_RATIO: Final = Quantity(
    "update spectral ratio",
    ("watch",),
    "largest singular value of one step's update over that of the weight behind the step",
    symbol=r"\|\Delta W\|_2/\|W\|_2",
    scale="log",
    source="Yang, Simon & Bernstein 2023, Cond. 1",
)
UPDATE_STABLE_RANK: Final = Quantity(
    "update stable rank",
    ("watch",),
    "stable rank of what one step of the optimizer added to a weight: in about how many "
    "directions it moved",
    symbol=r"\|\Delta W\|_F^2/\|\Delta W\|_2^2",
    least=1,
    range="1 to min(shape)",
    scale="log",
    healthy="a fifth to three fifths of min(shape) with Muon (docs/watching.md)",
    source="Rudelson & Vershynin 2007",
)
ATTENTION_ENTROPY: Final = Quantity(
    "attention entropy",
    ("watch",),
    "mean over queries and heads of the entropy of attention over that of equal attention"
    " to every key in sight; `form` `least head`: of the head with the least",
    most=1,
    source="Zhai et al. 2023, Sec. 3",
)
STATISTICS_DRIFT: Final = Quantity(
    "statistics drift",
    ("watch",),
    "at a batch normaliser, root mean square over channels of the difference of running "
    "and batch mean, in batch standard deviations, with that of the logarithms of half "
    "the variances' ratio",
    source="Ioffe & Szegedy 2015, Sec. 3.1",
)
SHARPNESS: Final = Quantity(
    "sharpness",
    ("watch",),
    "largest eigenvalue of the Hessian of the loss of the probe batch, in the parameters "
    "of one layer or of all",
    unit="loss/weight²",
    least=-math.inf,
    scale="log",
    source="Cohen et al. 2021, Sec. 2",
)
RATE_TIMES_SHARPNESS: Final = Quantity(
    "rate times sharpness",
    ("watch",),
    "learning rate over the largest at which plain gradient descent on a quadratic of "
    "this sharpness does not diverge, with momentum, and in Adam's own scale of "
    "coordinates",
    symbol=r"\eta\lambda_{\max}/(2(1+\beta))",
    least=-math.inf,
    source="Cohen et al. 2021, Sec. 2; 2022, Sec. 2",
)
LAYER_IMBALANCE: Final = Quantity(
    "layer imbalance",
    ("watch",),
    "of two layers that undo one another's scale and decay at different speeds: squared "
    "norm of the first (with its bias) less that of the second, over their sum",
    symbol=(
        r"(\lVert W\rVert_F^2+\lVert b\rVert^2-\lVert V\rVert_F^2)/(\lVert W\rVert_F^2+\lVert "
        r"b\rVert^2+\lVert V\rVert_F^2)"
    ),
    least=-1,
    most=1,
    source="Le & Jegelka 2022, Sec. 3",
)
IMBALANCE_MOVED: Final = Quantity(
    "imbalance moved",
    ("watch",),
    "change of that difference of squared norms since it was first read, over the sum of "
    "all four squared norms, of now and then",
    least=-1,
    most=1,
    source="Le & Jegelka 2022, Sec. 3",
)
IMBALANCE_MOVED_BY_DECAY: Final = Quantity(
    "imbalance moved by decay",
    ("watch",),
    "what weight decay alone has added to that change, from its rate and the squared "
    "norms at each reading",
    least=-1,
    most=1,
    source="Le & Jegelka 2022, Sec. 3; arithmetic",
)
WATCHED_SHARE: Final = Quantity(
    "watched share",
    ("watch",),
    "share of the training time that watching took",
    most=1,
)


_DECLARED: Final = tuple(q for q in tuple(globals().values()) if isinstance(q, Quantity))
_own: ContextVar[tuple[Quantity, ...]] = ContextVar("quantities of the user", default=())


def quantities() -> Mapping[str, Quantity]:
    """Every quantity by name: those of one view together, the most telling first."""
    return _table(_own.get())


@cache
def _table(own: tuple[Quantity, ...]) -> Mapping[str, Quantity]:
    return MappingProxyType({q.name: q for q in (*_DECLARED, *own)})


@contextmanager
def with_own(*own: Quantity) -> Iterator[None]:
    """Within the block the table has quantities of your own too, as docs/extending.md shows.

    Args:
        own: Their rows.

    Raises:
        ValueError: If one has the name of another, or names no view or one that there is not.
    """
    for q in own:
        if q.name in quantities():
            raise ValueError(f"There is a quantity {q.name!r} already: name yours otherwise.")
        if not q.views or not set(q.views) <= set(get_args(View)):
            views = ", ".join(get_args(View))
            raise ValueError(f"`views` of {q.name!r} must name some of {views}, got {q.views}.")
    token = _own.set((*_own.get(), *own))
    try:
        yield
    finally:
        _own.reset(token)


def quantity(name: str) -> Quantity:
    """The quantity of that name.

    Args:
        name: As in the table.

    Raises:
        ValueError: If there is none; with the name that is nearest.
    """
    known = quantities()
    if name not in known:
        close = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"A quantity must be one of those in docs/measurements.md, got {name!r}.{hint}"
        )
    return known[name]


def in_view(view: View) -> tuple[Quantity, ...]:
    """The quantities of a view, in the order of the table."""
    return tuple(q for q in quantities().values() if view in q.views)


def columns() -> tuple[Quantity, ...]:
    """Those with a column in the terminal's table of layers, the most telling first."""
    return tuple(q for q in quantities().values() if q.column)


def families() -> Mapping[str, tuple[str, ...]]:
    """Names of the quantities that share a panel, by the panel's title."""
    found: dict[str, tuple[str, ...]] = {}
    for q in quantities().values():
        if q.family:
            found[q.family] = (*found.get(q.family, ()), q.name)
    return MappingProxyType(found)
