"""Every metric that a program serves: name, kind, labels, HELP text. docs/metrics.md is made from this table.

Names that other programs read stand in rankbeat_contract.names. The agent never imports this module, and it does not
travel with it (packing.place).
"""

# ruff: noqa: F403, F405 - one surface: every metric is metrics.NAME
from rankbeat_contract.metrics.accelerators import *
from rankbeat_contract.metrics.clock import *
from rankbeat_contract.metrics.collectors import *
from rankbeat_contract.metrics.exporters import *
from rankbeat_contract.metrics.family import *
from rankbeat_contract.metrics.jobs import *
from rankbeat_contract.metrics.programs import *
from rankbeat_contract.metrics.ranks import *

TABLE = (
    *(value for value in tuple(globals().values()) if isinstance(value, Metric)),
    *ACCELERATOR_FIGURES.values(),
    *ACCELERATOR_PARTS.values(),
    *ACCELERATOR_ROWS.values(),
)
"""All of them."""
