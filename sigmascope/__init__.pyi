"""What `import sigmascope as ss` has: the doors that most need, and the rooms with the rest."""

from . import (
    diagnosis as diagnosis,
    linalg as linalg,
    models as models,
    report as report,
    survey as survey,
    theory as theory,
)
from .core import (
    records as records,
)
from .core.guard import (
    Refusal as Refusal,
)
from .core.records import (
    Estimate as Estimate,
)
from .core.store import (
    Run as Run,
    export as export,
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
    remedy as remedy,
)
from .diagnosis.scaling import (
    widths as widths,
)
from .diagnosis.scripts import (
    observe as observe,
)
from .diagnosis.trainability import (
    probability as probability,
)
from .models import (
    Subject as Subject,
    networks as networks,
)
from .models.state import (
    duplicate as duplicate,
)
from .report import (
    explain as explain,
    text as text,
)
from .scanning import (
    scan as scan,
)
from .sources import (
    open_data as open_data,
    open_model as open_model,
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
