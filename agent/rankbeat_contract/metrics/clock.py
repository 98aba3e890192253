"""Of a node's clock."""

from functools import partial

from rankbeat_contract import names
from rankbeat_contract.metrics import family

_clock = partial(family.metric, family.CLOCK, ("node",))

CLOCK_TRUSTED = _clock(names.NODE_CLOCK_TRUSTED, "Whether this node's clock is trusted, with the reason.", "reason")
CLOCK_OFFSET = _clock(names.NODE_CLOCK_OFFSET, "The reference's clock minus this node's.")
CLOCK_ERROR_BOUND = _clock(names.NODE_CLOCK_ERROR_BOUND, "Largest error of the offset that the evidence admits.")
CLOCK_KERNEL_SYNCHRONISED = _clock(
    "rankbeat_node_clock_kernel_synchronised", "Whether the kernel holds its clock for synchronised (adjtimex)."
)
CLOCK_KERNEL_MAX_ERROR = _clock("rankbeat_node_clock_kernel_max_error_seconds", "The kernel's maximum error.")
CLOCK_KERNEL_ESTIMATED_ERROR = _clock(
    "rankbeat_node_clock_kernel_estimated_error_seconds", "The kernel's estimated error."
)
CLOCK_KERNEL_OFFSET = _clock("rankbeat_node_clock_kernel_offset_seconds", "What the kernel still has to slew.")
CLOCK_SERVERS = _clock(
    "rankbeat_node_clock_servers", "Configured NTP servers; 0: only what this node itself says of its clock is judged."
)
CLOCK_CHRONY_SYNCHRONISED = _clock(
    "rankbeat_node_clock_chrony_synchronised", "Whether the node's chronyd has a reference, with the reason.", "reason"
)
CLOCK_CHRONY_OFFSET = _clock(
    "rankbeat_node_clock_chrony_offset_seconds", "True time minus the clock's, as chrony says."
)
CLOCK_CHRONY_ERROR_BOUND = _clock(
    "rankbeat_node_clock_chrony_error_bound_seconds", "chrony's root dispersion and half its root delay."
)
CLOCK_CHRONY_STRATUM = _clock("rankbeat_node_clock_chrony_stratum", "Stratum of the node's chronyd.")
CLOCK_SERVER_VALID = _clock(
    "rankbeat_node_clock_server_valid",
    "Whether the server's time takes part in the quorum, with the reason.",
    "server",
    "reason",
)
CLOCK_SERVER_OFFSET = _clock(
    "rankbeat_node_clock_server_offset_seconds", "The server's clock minus this node's.", "server"
)
CLOCK_SERVER_DELAY = _clock("rankbeat_node_clock_server_delay_seconds", "Round trip to the server.", "server")
CLOCK_SERVER_STRATUM = _clock("rankbeat_node_clock_server_stratum", "The server's stratum.", "server")
