"""What `import sigmascope as ss` has: the doors that most need, and the rooms with the rest."""

from . import (
    diagnosis as diagnosis,
    linalg as linalg,
    networks as networks,
    probes as probes,
    records as records,
    report as report,
    survey as survey,
    theory as theory,
)
from .diagnosis import (
    Program as Program,
    diagnose as diagnose,
    judge as judge,
    layer_rates as layer_rates,
    treat as treat,
    trial as trial,
)
from .diagnosis.compression import (
    compression as compression,
)
from .diagnosis.presentation import (
    page as page,
)
from .diagnosis.ranking import (
    rank as rank,
)
from .diagnosis.remedies import (
    remedies_for as remedies_for,
    remedy as remedy,
)
from .diagnosis.trainability import (
    probability as probability,
)
from .guard import (
    Refusal as Refusal,
)
from .probes import (
    Subject as Subject,
)
from .probes.execution import (
    duplicate as duplicate,
)
from .records import (
    Estimate as Estimate,
)
from .report import (
    explain as explain,
    text as text,
)
from .scanning import (
    scan as scan,
)
from .scripts import (
    observe as observe,
)
from .sources import (
    open_data as open_data,
    open_model as open_model,
)
from .store import (
    Run as Run,
    export as export,
)
from .survey import (
    profile as profile,
)
from .theory import (
    check as check,
    compare as compare,
)
from .theory.bottleneck import (
    bottleneck as bottleneck,
    predict as predict,
)
from .theory.landscape import (
    curvature as curvature,
    landscape as landscape,
)
from .watching import (
    watch as watch,
)

__version__: str
