"""The text of /metrics: its format, what stands when on it, and what of it is made when."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import family
from rankbeat_exporter.server.exposition import Exposition, Source, text


def a_success(name, value=1.0):
    return family(metrics.EXPORTER_SUCCESS, [(("n1", name), value)])


def test_a_collector_that_cannot_be_shown_is_left_out_and_counted_and_the_others_are_there():
    exposition = Exposition()
    exposition.put(Source("good", int, lambda _: [a_success("good")]))
    exposition.put(Source("bad", object, lambda _: 1 / 0))

    pages = [exposition.page() for _ in range(2)]

    assert [status for status, _, _ in pages] == [200, 200]
    assert b'{collector="good",node="n1"} 1.0' in pages[1][2]
    assert exposition.failures() == (("bad", 2), ("good", 0))


def test_a_family_of_several_collectors_stands_once():
    exposition = Exposition()
    for name in ("one", "two"):
        exposition.put(Source(name, int, lambda _, name=name: [a_success(name)]))

    page = exposition.page()[2].decode()

    assert page.count("# TYPE rankbeat_node_collector_success gauge") == 1
    assert [line for line in page.splitlines() if line[0] != "#"] == [
        'rankbeat_node_collector_success{collector="one",node="n1"} 1.0',
        'rankbeat_node_collector_success{collector="two",node="n1"} 1.0',
    ]


VALUES = (
    st.floats() | st.integers(-(2**60), 2**60) | st.sampled_from([0.0, 1e6, 123456.0, 1234567.0, 1796018231.25, -5e8])
)


@given(st.lists(st.tuples(st.text(max_size=8), VALUES), max_size=5, unique_by=lambda row: row[0]))
def test_any_label_and_any_number_is_written_as_client_libraries_write_it(rows):
    kinds = {metrics.GAUGE: GaugeMetricFamily, metrics.COUNTER: CounterMetricFamily}
    for metric in (metrics.EXPORTER_SUCCESS, metrics.EXPORTER_SERIES_FAILURES):
        theirs = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
        for value, number in rows:
            theirs.add_metric(("n1", value), number)

        ours = text([family(metric, [(("n1", value), number) for value, number in rows])])

        assert ours == generate_latest(Registered(theirs))


class Registered:
    """One family, as a registry of prometheus_client gives it."""

    def __init__(self, family):
        self._family = family

    def collect(self):
        return [self._family]


def a_source(outcomes, fresh_seconds=0.0, now=time.monotonic):
    """A source with one success for each outcome that its view gives in turn; an exception is raised."""
    rest = iter(outcomes)

    def families(outcome):
        if isinstance(outcome, Exception):
            raise outcome
        return [a_success("one", outcome)]

    return Source("one", lambda: next(rest), families, fresh_seconds, now)


def shown(source):
    """The success on the page, None where there is none."""
    exposition = Exposition()
    exposition.put(source)
    page = exposition.page()[2].decode()
    return float(page.split()[-1]) if page else None


def test_what_a_collection_found_is_shown_until_the_next_ends_or_it_is_too_old():
    seconds = [0.0]
    source = a_source([1.0, 2.0, 3.0, 4.0], fresh_seconds=21.0, now=lambda: seconds[0])
    pages = []

    for at, is_collected in ((0.0, True), (5.0, False), (10.0, True), (31.0, False), (31.5, False), (32.0, False)):
        seconds[0] = at
        if is_collected:
            source.refresh()
        pages.append(shown(source))

    assert pages == [1.0, 1.0, 2.0, 2.0, 3.0, 4.0]


def test_what_no_collection_renders_is_rendered_at_each_scrape():
    source = a_source([1.0, 2.0])

    assert [shown(source), shown(source)] == [1.0, 2.0]


def test_what_can_no_longer_be_rendered_is_left_out_at_once():
    source = a_source([1.0, ValueError(), ValueError()], fresh_seconds=21.0)
    source.refresh()
    assert shown(source) == 1.0

    with pytest.raises(ValueError):  # noqa: PT011 - the source's own
        source.refresh()

    assert shown(source) is None


def test_only_a_family_with_other_rows_is_rendered_anew():
    found = [a_success("one"), family(metrics.EXPORTER_CONFIGURATION_LOADED, [(("n1",), 1.0)])]
    source = Source("one", int, lambda _: found)
    before = source.rendered()

    found[1] = family(metrics.EXPORTER_CONFIGURATION_LOADED, [(("n1",), 2.0)])
    changed = source.rendered()
    del found[1]
    gone = source.rendered()

    success, loaded = metrics.EXPORTER_SUCCESS.name, metrics.EXPORTER_CONFIGURATION_LOADED.name
    assert changed[success] is before[success] is gone[success]
    assert (changed[loaded].samples[-4:], gone.keys()) == (b"2.0\n", {success})


def test_a_family_that_comes_in_two_parts_stands_once():
    source = Source("one", int, lambda _: [a_success("a"), a_success("b", 0.0)])

    assert source.rendered()[metrics.EXPORTER_SUCCESS.name].samples.decode().splitlines() == [
        'rankbeat_node_collector_success{collector="a",node="n1"} 1.0',
        'rankbeat_node_collector_success{collector="b",node="n1"} 0.0',
    ]


def test_an_unchanged_page_is_the_same_bytes():
    """With 400 KiB made anew for each scrape resident memory wandered by 2 MiB."""
    exposition = Exposition()
    exposition.put(Source("one", int, lambda _: [a_success("one")]))

    assert exposition.page()[2] is exposition.page()[2]
