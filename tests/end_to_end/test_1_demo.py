"""`make demo`, from a training step to the page."""

import pytest

import dashboards
from product import Product, wait
from rankbeat_contract import names

pytestmark = [pytest.mark.demo, pytest.mark.timeout(1200)]


def test_the_page_arrives_within_45_seconds_and_names_the_right_rank(product: Product):
    figures = product.demo["figures"]

    assert figures["suspects_right"] == 1
    assert figures["page_seconds"] <= 45


def test_the_crash_that_follows_pages_nobody_again(product: Product):
    assert product.demo["further_pages"] == []


def test_every_query_of_the_dashboard_returns_data(product: Product):
    """But those about accelerators, of which the demo's ranks hold none: test_6_devices asks them."""
    rows = dashboards.queries("training", "llm")
    asked = {
        title: expr for row, panels in rows.items() if row != dashboards.DEVICES_ROW for title, expr in panels.items()
    }

    wait("the job trains again", lambda: product.prometheus.vector('rankbeat_phase{phase="train"}'), 180)
    seen = {
        title: wait(title, lambda expr=expr: product.prometheus.vector(f"last_over_time(({expr})[30m:5s])"), 60)
        for title, expr in asked.items()
    }

    assert {title for title, found in seen.items() if not found} == set()


def test_the_exported_names_are_those_of_the_contract(product: Product):
    known = {value for name, value in vars(names).items() if isinstance(value, str) and value.startswith("rankbeat_")}
    found = {
        labels["__name__"]
        for labels, _ in product.prometheus.vector('{__name__=~"rankbeat_(job_)?[a-z_]+", monitor="llm"}')
    }

    assert {name for name in found if name not in known} == set()
