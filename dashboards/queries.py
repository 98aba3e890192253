"""The PromQL of the dashboards, apart from the panels that show it. Job series carry namespace, monitor, job_uid."""

from rankbeat_contract import names

JOB = '{namespace="$namespace", monitor="$monitor"}'


def job(metric: str) -> str:
    return f"{metric}{JOB}"


def worst_incident_level() -> str:
    return f"max({job(names.JOB_INCIDENT_LEVEL)})"


def ranks_reporting() -> str:
    return f"max({job(names.JOB_RANKS_REPORTING)})"


def ranks_expected() -> str:
    return f"max({job(names.JOB_RANKS_EXPECTED)})"


def step() -> str:
    return f"max({job(names.JOB_STEP_MIN)})"


def seconds_since_progress() -> str:
    return f"max({job(names.JOB_STALL_SECONDS)})"


def hang_limit() -> str:
    return f'max({names.JOB_LIMIT_SECONDS}{{namespace="$namespace", monitor="$monitor", limit="hang"}})'


def loss() -> str:
    return job(names.JOB_LOSS)


def steps_per_second() -> str:
    return f"1 / {job(names.JOB_STEP_INTERVAL)}"


def rank_step() -> str:
    return job(names.RANK_STEP)


def rank_gap() -> str:
    return job(names.RANK_GAP)


def rank_in_step() -> str:
    return job(names.RANK_IN_STEP)


def rank_memory() -> str:
    return job(names.RANK_RESIDENT_MEMORY)


def ranks_by_phase() -> str:
    return job(names.JOB_PHASE)


def suspects() -> str:
    return job(names.JOB_SUSPECT)


def job_nodes(metric: str) -> str:
    """A node's series, on the nodes of this job only."""
    return f"{metric} * on (node) group_left () (0 * group by (node) ({job(names.RANK_INFO)}) + 1)"


def clock_offset() -> str:
    return job_nodes(names.NODE_CLOCK_OFFSET)


def clock_trusted() -> str:
    return job_nodes(names.NODE_CLOCK_TRUSTED)


def rank_devices() -> str:
    """1 for each rank of this job and its accelerator: rankbeat-devices and the collector, joined by the pod."""
    pod = "(node, namespace, pod, local_rank)"
    rank = f"topk by {pod} (1, {job(names.RANK_INFO)})"
    return f'{names.NODE_ACCELERATOR_HOLDER}{{namespace="$namespace"}} * on {pod} group_left (monitor, rank) {rank}'


def of_ranks(expression: str) -> str:
    """A device's figure, with the labels of the rank that works on it."""
    return f"({rank_devices()}) * on (node, vendor, device) group_left () max by (node, vendor, device) ({expression})"


def device_figure(figure: str) -> str:
    return of_ranks(names.NODE_ACCELERATOR_PREFIX + figure)


def device_frequency_share() -> str:
    prefix = names.NODE_ACCELERATOR_PREFIX
    return of_ranks(f"{prefix}frequency_hertz / {prefix}frequency_max_hertz")


def suspected_devices() -> str:
    return job("rank:rankbeat_node_accelerator_suspected:ratio")
