"""Every name that two programs share. Nothing else may spell a label, a path, a port or a metric."""

GROUP = "rankbeat.io"
VERSION = "v1alpha1"
KIND = "TrainingMonitor"
PLURAL = "trainingmonitors"

# Labels and annotations.
LABEL_MONITOR = "rankbeat.io/monitor"
"""On a pod template: the monitor's name. Opts the pod in."""
LABEL_INJECT = "rankbeat.io/inject"
"""On a namespace: `enabled` opts in pods that a monitor selects. On a pod: `disabled` always wins."""
LABEL_STATE = "rankbeat.io/state"
"""Written by the webhook on each pod that it saw: STATE_INJECTED or STATE_SKIPPED."""
STATE_INJECTED = "injected"
STATE_SKIPPED = "skipped"
ANNOTATION_INJECTION = "rankbeat.io/injection"
"""Written by the webhook: JSON object with monitor, result (INJECTED or a REASON_*), message, agent, container."""
ANNOTATION_BREAKER = "rankbeat.io/reset-breaker"
"""Set by a person on a TrainingMonitor to any new value: closes the breaker."""
LABEL_COMPONENT = "rankbeat.io/component"
LABEL_MONITOR_UID = "rankbeat.io/monitor-uid"

MANAGER_MONITOR = "rankbeat-monitor"
MANAGER_FLEET = "rankbeat-fleet"
MANAGER_CERT = "rankbeat-cert"
MANAGER_STATUS = "rankbeat-status"

# Objects.
AGENT_CONFIG_MAP_PREFIX = "rankbeat-agent-"
MONITOR_CONFIG_MAP_PREFIX = "rankbeat-config-"
MONITOR_CONFIG_KEY = "monitor.json"
FLEET_CONFIG_MAP = "rankbeat-fleet"
KILL_SWITCH_KEY = "injection"
"""Key of FLEET_CONFIG_MAP: `enabled`, or `disabled` to turn all injection off within 10 s."""
AGGREGATOR = "rankbeat-aggregator"
NODE = "rankbeat-node"
DEVICES = "rankbeat-devices"
OPERATOR = "rankbeat-operator"
WEBHOOK = "rankbeat-webhook"

# Inside a training pod.
RING_VOLUME = "rankbeat"
AGENT_VOLUME = "rankbeat-agent"
CONFIG_VOLUME = "rankbeat-config"
RING_PATH = "/rankbeat/ring"
AGENT_PATH = "/rankbeat/agent"
CONFIG_PATH = "/rankbeat/config"
ENV_RING_DIR = "RANKBEAT_RING_DIR"
"""Where rings go; the agent is off where it is not set."""
ENV_CONFIG = "RANKBEAT_CONFIG"
"""Path of the monitor's configuration file; defaults hold while the file is absent."""
ENV_RING_BYTES = "RANKBEAT_RING_BYTES"
ENV_ATTEMPT = "RANKBEAT_ATTEMPT"

# Ports of our programs, inside their pods.
PORT_COLLECTOR = 9410
PORT_CLOCK = 9411
PORT_DEVICES = 9412
PORT_AGGREGATOR = 9420
"""TLS: /v1/reports and /v1/verdicts."""
PORT_AGGREGATOR_METRICS = 9421
PORT_OPERATOR = 9430
PORT_WEBHOOK = 9440
"""TLS: /v1/pods."""
PORT_WEBHOOK_METRICS = 9441

AUDIENCE = "rankbeat-aggregator"
"""Audience of the projected ServiceAccount tokens that the aggregator accepts."""

# Reasons: of a pod's injection, and of conditions.
INJECTED = "Injected"
REASON_OPTED_OUT = "OptedOut"
REASON_KILL_SWITCH = "InjectionTurnedOff"
REASON_BREAKER_OPEN = "BreakerOpen"
REASON_NO_COMMAND = "NoCommand"
REASON_SHELL_NOT_PROVEN = "ShellNotProven"
REASON_ENV_NOT_PRESERVED = "EnvNotPreserved"
REASON_PYTHONPATH_FROM_SOURCE = "PythonPathFromSource"
REASON_NO_MONITOR = "NoMonitor"
REASON_NO_CONTAINER = "NoContainer"
REASON_ALREADY_INJECTED = "AlreadyInjected"
REASON_PAUSED = "Paused"
REASON_MOUNT_TAKEN = "MountTaken"
REASON_ERROR = "InternalError"

# Evidence of a verdict, strongest first.
EVIDENCE_NOT_ARRIVED = "not_arrived"
"""The suspects have not entered the step that all others are in."""
EVIDENCE_PROCESS_DEAD = "process_dead"
"""The suspects' processes ended, or their exception is the earliest."""
EVIDENCE_DEVICE = "device"
"""All are inside the step, one device stands out."""
EVIDENCE_NONE = "none"
"""All are inside the step and nothing tells them apart."""

INCIDENT_KINDS = ("hang", "crash", "nan_loss", "rank_missing")

# Names that the agent interns in the ring; a user's own follow METRIC_NAME_PATTERN.
METRIC_NAME_PATTERN = r"[a-z][a-z0-9_]{0,63}"
SCALAR_LOSS = "loss"
SCALAR_RESIDENT_MEMORY = "resident_memory_bytes"
SCALAR_LEARNING_RATE = "learning_rate"

# Metrics that others read; rankbeat_contract.metrics says their labels and meaning, and holds all others.
RANK_INFO = "rankbeat_rank_info"
RANK_STEP = "rankbeat_step"
RANK_STEP_INTERVAL = "rankbeat_step_interval_seconds"
RANK_GAP = "rankbeat_gap_seconds"
RANK_IN_STEP = "rankbeat_in_step_seconds"
RANK_PHASE = "rankbeat_phase"
RANK_LAST_STEP_TIMESTAMP = "rankbeat_last_step_timestamp_seconds"
RANK_LOSS = "rankbeat_loss"
RANK_LOSS_IS_FINITE = "rankbeat_loss_is_finite"
RANK_CPU_SECONDS = "rankbeat_cpu_seconds_total"
RANK_RESIDENT_MEMORY = "rankbeat_resident_memory_bytes"
RANK_RECORDS_LOST = "rankbeat_records_lost_total"
RANK_AGENT_ERRORS = "rankbeat_agent_errors_total"

JOB_INFO = "rankbeat_job_info"
JOB_RANKS_EXPECTED = "rankbeat_job_ranks_expected"
JOB_RANKS_REPORTING = "rankbeat_job_ranks_reporting"
JOB_STEP_MIN = "rankbeat_job_step_min"
JOB_STEP_MAX = "rankbeat_job_step_max"
JOB_STEP_INTERVAL = "rankbeat_job_step_interval_seconds"
JOB_LOSS = "rankbeat_job_loss"
JOB_LOSS_IS_FINITE = "rankbeat_job_loss_is_finite"
JOB_STALL_SECONDS = "rankbeat_job_stall_seconds"
JOB_INCIDENT_LEVEL = "rankbeat_job_incident_level"
JOB_SUSPECT = "rankbeat_job_suspect"
JOB_INCIDENT_STARTED = "rankbeat_job_incident_started_timestamp_seconds"
JOB_LIMIT_SECONDS = "rankbeat_job_limit_seconds"
JOB_PHASE = "rankbeat_job_phase"
JOB_ATTEMPT = "rankbeat_job_attempt"
JOB_PAUSED = "rankbeat_job_paused"
NODE_CLOCK_OFFSET = "rankbeat_node_clock_offset_seconds"
NODE_CLOCK_ERROR_BOUND = "rankbeat_node_clock_error_bound_seconds"
NODE_CLOCK_TRUSTED = "rankbeat_node_clock_trusted"
NODE_ACCELERATOR_PREFIX = "rankbeat_node_accelerator_"
NODE_COLLECTOR_SUCCESS = "rankbeat_node_collector_success"
