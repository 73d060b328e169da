"""What `import sigmascope as ss` has: the doors of all rooms, and the rooms."""

from . import (
    cli as cli,
    diagnosis as diagnosis,
    gate as gate,
    integrations as integrations,
    linalg as linalg,
    networks as networks,
    probes as probes,
    records as records,
    report as report,
    scanning as scanning,
    sources as sources,
    store as store,
    survey as survey,
    theory as theory,
    watching as watching,
)
from .diagnosis import (
    Diagnosis as Diagnosis,
    Program as Program,
    Treatment as Treatment,
    assess as assess,
    bottleneck as bottleneck,
    diagnose as diagnose,
    judge as judge,
    layer_rates as layer_rates,
    treat as treat,
    trial as trial,
)
from .diagnosis.compression import (
    compression as compression,
)
from .diagnosis.ranking import (
    rank as rank,
)
from .diagnosis.remedies import (
    REMEDIES as REMEDIES,
    remedies_for as remedies_for,
    remedy as remedy,
)
from .diagnosis.trainability import (
    forecast as forecast,
    foretold as foretold,
    probability as probability,
)
from .gate import (
    Refusal as Refusal,
)
from .linalg.spectra import (
    spectrum as spectrum,
)
from .probes import (
    Subject as Subject,
)
from .probes.execution import (
    duplicate as duplicate,
    still as still,
)
from .records import (
    Estimate as Estimate,
    Finding as Finding,
    Profile as Profile,
    Reading as Reading,
    Spectrum as Spectrum,
    Verdict as Verdict,
)
from .report import (
    explain as explain,
    page as page,
    text as text,
)
from .scanning import (
    scan as scan,
)
from .sources import (
    open_both as open_both,
    open_data as open_data,
    open_model as open_model,
    read_checkpoint as read_checkpoint,
)
from .store import (
    Run as Run,
    export as export,
)
from .survey import (
    Monitor as Monitor,
    compare as compare,
    profile as profile,
)
from .survey.bottleneck import (
    depth_sweep as depth_sweep,
    predict as predict,
)
from .survey.landscape import (
    curvature as curvature,
    input_regions as input_regions,
    landscape as landscape,
    loss_line as loss_line,
    loss_surface as loss_surface,
    what_if as what_if,
)
from .theory import (
    THEOREMS as THEOREMS,
    check as check,
)
from .watching import (
    Watch as Watch,
    watch as watch,
)

__version__: str
