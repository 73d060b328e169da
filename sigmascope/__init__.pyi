"""What `import sigmascope as ss` has: the doors of all rooms, and the rooms."""

from . import (
    cli as cli,
)
from . import (
    diagnosis as diagnosis,
)
from . import (
    experiments as experiments,
)
from . import (
    gate as gate,
)
from . import (
    integrations as integrations,
)
from . import (
    linalg as linalg,
)
from . import (
    networks as networks,
)
from . import (
    probes as probes,
)
from . import (
    report as report,
)
from . import (
    sources as sources,
)
from . import (
    store as store,
)
from . import (
    survey as survey,
)
from . import (
    theory as theory,
)
from .diagnosis import (
    REMEDIES as REMEDIES,
)
from .diagnosis import (
    Finding as Finding,
)
from .diagnosis import (
    Treatment as Treatment,
)
from .diagnosis import (
    assess as assess,
)
from .diagnosis import (
    bottleneck as bottleneck,
)
from .diagnosis import (
    compression as compression,
)
from .diagnosis import (
    diagnose as diagnose,
)
from .diagnosis import (
    foretold as foretold,
)
from .diagnosis import (
    layer_rates as layer_rates,
)
from .diagnosis import (
    probability as probability,
)
from .diagnosis import (
    remedies_for as remedies_for,
)
from .diagnosis import (
    remedy as remedy,
)
from .diagnosis import (
    treat as treat,
)
from .diagnosis import (
    trial as trial,
)
from .gate import Refusal as Refusal
from .linalg import Estimate as Estimate
from .linalg import Spectrum as Spectrum
from .linalg import spectrum as spectrum
from .probes import Subject as Subject
from .probes import duplicate as duplicate
from .probes import still as still
from .report import page as page
from .report import text as text
from .sources import (
    open_both as open_both,
)
from .sources import (
    open_data as open_data,
)
from .sources import (
    open_model as open_model,
)
from .sources import (
    read_checkpoint as read_checkpoint,
)
from .store import Run as Run
from .store import export as export
from .survey import (
    Monitor as Monitor,
)
from .survey import (
    Profile as Profile,
)
from .survey import (
    Reading as Reading,
)
from .survey import (
    compare as compare,
)
from .survey import (
    curvature as curvature,
)
from .survey import (
    depth_sweep as depth_sweep,
)
from .survey import (
    input_regions as input_regions,
)
from .survey import (
    landscape as landscape,
)
from .survey import (
    loss_line as loss_line,
)
from .survey import (
    loss_surface as loss_surface,
)
from .survey import (
    predict as predict,
)
from .survey import (
    profile as profile,
)
from .survey import (
    what_if as what_if,
)
from .theory import THEOREMS as THEOREMS
from .theory import Verdict as Verdict
from .theory import check as check

__version__: str
