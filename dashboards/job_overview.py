"""The dashboard `Job overview`: one screen that says whether a training job is well, and if not, who is suspected."""

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

import queries
from rankbeat_contract import names

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")


def target(expression: str, legend: str, *, is_table: bool = False) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expression).legend_format(legend)
    return query.instant().format(PromQueryFormat.TABLE) if is_table else query


def number(title: str, expression: str, unit: str, description: str) -> stat.Panel:
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(4)
        .span(4)
        .with_target(target(expression, ""))
    )


def graph(title: str, unit: str, description: str, *targets: prometheus.Dataquery) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(8)
        .span(12)
        .line_width(1)
        .fill_opacity(5)
        .show_points(common.VisibilityMode.NEVER)
    )
    for one in targets:
        panel = panel.with_target(one)
    return panel


def incident() -> stat.Panel:
    levels = [
        models.ValueMap(
            options={
                "0": models.ValueMappingResult(text="healthy", color="green", index=0),
                "1": models.ValueMappingResult(text="stalled", color="orange", index=1),
                "2": models.ValueMappingResult(text="in trouble", color="red", index=2),
            }
        )
    ]
    return number(
        "State", queries.worst_incident_level(), "none", "Worst open incident of the job. No data: nobody can judge it."
    ).mappings(levels)


def suspects() -> table.Panel:
    return (
        table.Panel()
        .title("Suspects")
        .description("Ranks that the open incident points at, and on what evidence. Empty while the job is healthy.")
        .datasource(DATASOURCE)
        .height(8)
        .span(12)
        .with_target(target(queries.suspects(), "", is_table=True))
    )


def label_variable(label: str, metric: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(label)
        .label(label)
        .datasource(DATASOURCE)
        .query(f"label_values({metric}, {label})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def numbers() -> tuple[stat.Panel, ...]:
    return (
        incident(),
        number("Ranks reporting", queries.ranks_reporting(), "none", "Ranks whose node reports them now."),
        number("Ranks expected", queries.ranks_expected(), "none", "World size of the newest attempt."),
        number("Step", queries.step(), "none", "Last step that every reporting rank has finished."),
        number("Since progress", queries.seconds_since_progress(), "s", "Time since any rank finished a step."),
        number("Hang limit", queries.hang_limit(), "s", "Where this job is called stalled; spec.alerts.limits.hang."),
    )


def graphs() -> tuple[timeseries.Panel, ...]:
    return (
        graph("Loss", "none", "As the job's own log says it.", target(queries.loss(), "loss")),
        graph(
            "Steps per second", "none", "From the median step interval.", target(queries.steps_per_second(), "steps/s")
        ),
        graph(
            "Step per rank",
            "none",
            "A line that stays behind is a rank that the others wait for.",
            target(queries.rank_step(), "rank {{rank}}"),
        ),
        graph(
            "Gap per rank",
            "s",
            "End of a step to begin of the next: host and data time. The rank that stands out holds up the others.",
            target(queries.rank_gap(), "rank {{rank}}"),
        ),
        graph(
            "Inside the step per rank",
            "s",
            "Shown, never judged: in a synchronous job the rank that others wait for has the smallest.",
            target(queries.rank_in_step(), "rank {{rank}}"),
        ),
        graph("Ranks by phase", "none", "Where the ranks are.", target(queries.ranks_by_phase(), "{{phase}}")),
        graph(
            "Resident memory per rank",
            "bytes",
            "Of the training process.",
            target(queries.rank_memory(), "rank {{rank}}"),
        ),
        graph(
            "Clock offset of the job's nodes",
            "s",
            "Against the NTP quorum, else as the kernel says. Order between nodes is claimed only within the bound.",
            target(queries.clock_offset(), "{{node}}"),
        ),
    )


RANK_AND_DEVICE = "rank {{rank}}, {{node}} chip {{device}}"


def ranks_and_devices() -> table.Panel:
    return (
        table.Panel()
        .title("Ranks and their accelerators")
        .description(
            "Chip, node, pod and container of each rank, and who says so. Value: frequency, the rated one being 1."
        )
        .datasource(DATASOURCE)
        .unit("percentunit")
        .height(8)
        .span(12)
        .with_target(target(queries.device_frequency_share(), "", is_table=True))
    )


def suspected_devices() -> table.Panel:
    return (
        table.Panel()
        .title("Suspected accelerators")
        .description(
            "Busy chips a tenth or more below the median frequency of the job's ranks. A reason to be slow, no proof: "
            "in a synchronous job the step times name nobody."
        )
        .datasource(DATASOURCE)
        .unit("percentunit")
        .height(8)
        .span(12)
        .with_target(target(queries.suspected_devices(), "", is_table=True))
    )


def accelerators() -> tuple[timeseries.Panel | table.Panel, ...]:
    """The row of the job's chips, by rank."""
    return (
        ranks_and_devices(),
        suspected_devices(),
        graph(
            "Frequency of the rated one",
            "percentunit",
            "The chip that a rank works on; idle chips clock down.",
            target(queries.device_frequency_share(), RANK_AND_DEVICE),
        ),
        graph(
            "Utilisation",
            "percentunit",
            "AI Core or GPU busy.",
            target(queries.device_figure("utilization_ratio"), RANK_AND_DEVICE),
        ),
        graph(
            "Temperature",
            "celsius",
            "Of the chip.",
            target(queries.device_figure("temperature_celsius"), RANK_AND_DEVICE),
        ),
        graph("Power", "watt", "Drawn by the chip.", target(queries.device_figure("power_watts"), RANK_AND_DEVICE)),
    )


def job_overview() -> models.Dashboard:
    board = (
        dashboard.Dashboard("Rankbeat: job overview")
        .uid("rankbeat-job-overview")
        .description("One training job: is it moving, who holds it up, on which node.")
        .tags(["rankbeat"])
        .refresh("10s")
        .time("now-30m", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").label("data source").type("prometheus"))
        .with_variable(label_variable("namespace", names.JOB_INFO))
        .with_variable(label_variable("monitor", f'{names.JOB_INFO}{{namespace="$namespace"}}'))
    )
    for panel in (*numbers(), suspects(), *graphs()):
        board = board.with_panel(panel)
    board = board.with_row(dashboard.Row("Accelerators by rank"))
    for panel in accelerators():
        board = board.with_panel(panel)
    return board.build()
