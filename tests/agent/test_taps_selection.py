"""Which parameters and cells the monitor means."""

import pytest

from rankbeat_agent.hooks.taps import notes, selection


class Network:
    """Cells by path, as nn.Cell gives them."""

    def __init__(self, *paths):
        self.cells = [(path, object()) for path in paths]

    def cells_and_names(self):
        return iter(self.cells)


class Parameter:
    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("layers.3.attention.wq.weight", 3),
        ("model.layers.12.feed_forward.experts.7.w1", 12),
        ("0.weight", 0),
        ("head.weight", None),
        ("conv2d.weight", None),
    ],
    ids=str,
)
def test_a_layer_is_the_first_component_of_a_name_that_is_a_number(name, layer):
    assert selection.layer_of(name) == layer


@pytest.mark.parametrize(
    "pattern",
    [
        "_backbone.layers.*.attention.softmax",
        "backbone.*.attention.softmax",
        "network._backbone.layers.*.softmax",
        "layers.?.attention.softmax",
        "*softmax",
    ],
)
def test_a_path_may_be_written_with_or_without_what_wrappers_put_before_it(pattern):
    network = Network(
        "_backbone", "_backbone.layers.0.attention.softmax", "_backbone.layers.1.attention.softmax", "_loss_fn"
    )

    found, counts = selection.cells(network, [pattern])

    assert [path for path, _ in found] == [
        "_backbone.layers.0.attention.softmax",
        "_backbone.layers.1.attention.softmax",
    ]
    assert counts == [2]


def test_a_cell_that_two_paths_fit_is_found_once_and_counted_for_both():
    found, counts = selection.cells(Network("layers.0.softmax"), ["*softmax", "layers.*", "nothing"])

    assert (len(found), counts) == (1, [1, 1, 0])


def test_parameters_are_found_from_the_start_of_their_names():
    parameters = [Parameter(name) for name in ("layers.0.weight", "layers.1.bias", "head.weight")]

    chosen = selection.selected(parameters, [r"layers\.\d+\.weight", "head"])

    assert [(each.place, each.layer) for each in chosen] == [(0, 0), (2, None)]


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"spec\.parameters: '\(' is no regular expression"):
        selection.selected([Parameter("head.weight")], ["("])


def test_values_are_grouped_by_layer_and_those_of_none_come_last():
    assert notes.grouped([1, None, 0, 1], [1.0, 2.0, 3.0, 4.0]) == [
        notes.Group(0, [3.0]),
        notes.Group(1, [1.0, 4.0]),
        notes.Group(-1, [2.0]),
    ]
