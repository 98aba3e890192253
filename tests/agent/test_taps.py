"""Taps in real training: their values by NumPy, and that nothing about the training changes."""

import math
import re
from pathlib import Path

import pytest

import side_support
import tap_trainings
import training_support as support
from rankbeat_contract import side
from tap_trainings import records, reported

JOB = Path(__file__).with_name("taps_job.py")
ALL = ("gradNorm", "localNorms", "updateRatio", "attentionEntropy", "attentionSparsity")
CLASSES = ("classLoss", *ALL)

pytestmark = support.TRAINS


@pytest.fixture(scope="module")
def train(tmp_path_factory, agent):
    return lambda *asked, **more: tap_trainings.train(tmp_path_factory.mktemp("job"), agent, JOB, *asked, **more)


def by_layer(values):
    """Mean, smallest and largest of values by parameter, by the layer that the parameter's name says."""
    layers = {}
    for name, value in values.items():
        number = re.search(r"layers\.(\d+)\.", name)
        layers.setdefault(int(number.group(1)) if number else -1, []).append(value)
    return {layer: (sum(each) / len(each), min(each), max(each)) for layer, each in layers.items()}


def close(values):
    return {layer: pytest.approx(each, rel=1e-4, abs=1e-6) for layer, each in values.items()}


@pytest.fixture(scope="module")
def graph(train):
    return train(ALL, "--return-grad")


@pytest.fixture(scope="module")
def pynative(train):
    return train(ALL, "--return-grad", "--pynative")


@pytest.fixture(params=["graph", "pynative"])
def observed(request):
    return request.getfixturevalue(request.param)


def test_the_gradient_norm_is_that_of_all_gradients_together(observed):
    expected = {step["step"]: math.hypot(*step["norms"].values()) for step in observed.answer["steps"]}

    assert observed.ring.scalars("grad_norm") == pytest.approx(expected, rel=1e-5)
    assert list(expected) == [1, 2, 3, 4]


def test_local_norms_are_by_layer_the_mean_smallest_and_largest_of_its_parameters(observed):
    step = observed.answer["steps"][2]

    assert observed.layers("local_norm", 3) == close(by_layer(step["norms"]))


def test_the_update_ratio_is_how_far_one_step_moves_a_parameter_over_its_size(observed):
    step = observed.answer["steps"][2]

    assert observed.layers("update_ratio", 3) == close(by_layer(step["ratios"]))


def test_attention_entropy_and_sparsity_are_those_of_each_head_of_each_layer(observed, pynative):
    step = pynative.answer["steps"][2]  # only there the job can look at probabilities itself
    for name, expected in (("attention_entropy", step["entropies"]), ("attention_sparsity", step["sparsities"])):
        heads = {(layer, head): value for layer, row in enumerate(expected) for head, value in enumerate(row)}

        assert observed.heads(name, 3) == pytest.approx(heads, abs=1e-4)
        assert observed.layers(name, 3) == {
            layer: pytest.approx((sum(row) / len(row), min(row), max(row)), abs=1e-4)
            for layer, row in enumerate(expected)
        }


@pytest.mark.parametrize(
    ("signals", "mode"),
    [
        pytest.param((*CLASSES, "histograms"), ["--classes", "--dropout", "0.1"], id="graph with dropout"),
        pytest.param((*ALL, "histograms"), ["--pynative"], id="pynative"),
        pytest.param(("classLoss",), ["--pynative", "--classes"], id="pynative with classes"),
    ],
)
def test_training_is_the_same_to_the_last_bit_with_every_tap(train, signals, mode):
    """In PyNative apart: the last bit of nn.CrossEntropyLoss is not the same from call to call (docs/taps.md)."""
    plain = train(None, *mode)
    tapped = train(signals, *mode)

    assert tapped.training == plain.training
    assert tapped.ring.state.agent_errors == 0
    for signal, name in (("gradNorm", "grad_norm"), ("classLoss", "class_loss")):
        assert list(tapped.ring.scalars(name)) == ([1, 2, 3, 4] if signal in signals else [])
    assert tapped.ring.scalars("taps_refused_total") == {1: 0.0}
    assert reported(tapped.rings)["taps"] == {"refused": 0, "unresolved_paths": []}


def test_a_checkpoint_holds_the_same_parameters(train):
    plain = train(None, "--classes", "--checkpoint")
    tapped = train(CLASSES, "--classes", "--checkpoint")

    assert tapped.answer["checkpoint"] == plain.answer["checkpoint"]
    assert list(tapped.ring.scalars("grad_norm")) == [1, 2, 3, 4]


def test_a_fixed_loss_scale_is_not_in_the_norm(train):
    plain = train(["gradNorm"])
    scaled = train(["gradNorm"], "--scale", "1024")

    assert scaled.ring.scalars("grad_norm") == pytest.approx(plain.ring.scalars("grad_norm"), rel=1e-4)


def test_data_parallel_ranks_have_one_norm_and_train_as_without_the_tap(tmp_path, agent):
    said, norms, local, classes = {}, {}, {}, {}
    for which, signals in (("plain", None), ("tapped", ("gradNorm", "localNorms", "classLoss"))):
        folder = tmp_path / which
        folder.mkdir()
        launched = support.msrun(
            2, [str(JOB), "--distributed", "--classes"], tap_trainings.environment(folder, agent, signals, {}), folder
        )
        answers = [tap_trainings.answer(launched.logs[f"worker_{rank}.log"]) for rank in (0, 1)]
        said[which] = [(answer["weights"], [step["loss"] for step in answer["steps"]]) for answer in answers]
        for found in support.read_rings(folder / "rings"):
            norms[found.state.rank] = found.scalars("grad_norm")
            local[found.state.rank] = [record.value for record in records(found, "local_norm", 2)]
            classes[found.state.rank] = [record.value for record in records(found, "class_loss", 2)]

    assert said["tapped"] == said["plain"]
    assert list(norms[0]) == [1, 2, 3, 4]
    assert norms[0] == norms[1]
    assert local[0] != local[1]
    assert classes[0] != classes[1]


def test_the_losses_of_all_classes_together_are_the_steps_loss(train):
    tapped = train(["classLoss"], "--classes", "--dropout", "0.1")

    for step in tapped.answer["steps"]:
        losses = tapped.heads("class_loss", step["step"])
        total = sum(loss * step["labels"][each] for (_, each), loss in losses.items())
        assert total / sum(step["labels"]) == pytest.approx(float(step["loss"]), rel=1e-5)


def test_what_the_parallel_mode_makes_wrong_is_refused_even_where_it_is_known_only_when_the_step_compiles(train):
    tapped = train(("gradNorm", "localNorms", "classLoss"), "--classes", "--shard-later")

    assert tapped.answer is not None
    assert tapped.ring.scalars("grad_norm") == {}
    assert tapped.ring.scalars("local_norm") == {}
    assert tapped.ring.scalars("class_loss") == {}
    assert set(tapped.ring.scalars("taps_refused_total").values()) == {3.0}
    assert "gradNorm is not observed: parallel mode hybrid_parallel shards what it reads" in tapped.stderr


def test_a_path_that_fits_no_cell_is_named_by_its_place_in_the_monitor(train):
    tapped = train(["attentionEntropy"], attention={"cells": ["*.softmax", "decoder.*.softmax"]})

    cells = {record.layer: record.value for record in records(tapped.ring, "attention_cells", 1)}
    assert cells == {0: 2.0, 1: 0.0}
    assert tapped.ring.scalars("unresolved_paths_total") == {1: 1.0}
    assert (
        "spec.attention.cells[1] 'decoder.*.softmax' is not observed: no cell of the network has that path"
        in tapped.stderr
    )
    assert reported(tapped.rings)["taps"] == {"refused": 1, "unresolved_paths": [1]}


def test_a_cell_that_is_no_softmax_is_refused_and_training_goes_on(train):
    tapped = train(["attentionEntropy"], attention={"cells": ["*.attention"]})

    assert tapped.ring.phase == "done"
    assert tapped.ring.scalars("attention_entropy") == {}
    assert "is a Attention, not a Softmax" in tapped.stderr


def test_a_tap_that_cannot_be_installed_leaves_the_others_and_training(train):
    tapped = train(("gradNorm", "updateRatio"), parameters=["("])

    assert tapped.ring.phase == "done"
    assert list(tapped.ring.scalars("grad_norm")) == [1, 2, 3, 4]
    assert tapped.ring.scalars("taps_refused_total") == {1: 1.0}
    assert tapped.stderr.count("updateRatio is not observed") == 1


def test_sparse_gradients_have_no_norm_and_a_step_with_them_still_compiles(train):
    tapped = train(("gradNorm", "localNorms"), "--sparse")

    assert tapped.ring.phase == "done"
    assert tapped.ring.scalars("grad_norm") == {}
    assert "gradNorm is not observed: _backbone.table has sparse gradients (SparseGatherV2)" in tapped.stderr


def test_only_parameters_that_the_monitor_means_are_looked_at(train):
    tapped = train(("localNorms",), "--return-grad", parameters=[r"layers\.1\..*weight", "head"])

    norms = tapped.answer["steps"][1]["norms"]
    meant = {name: norm for name, norm in norms.items() if re.match(r"layers\.1\..*weight|head", name)}
    assert tapped.layers("local_norm", 2) == close(by_layer(meant))


def test_a_batch_of_a_size_that_is_not_known_compiles(train):
    plain = train(None, "--classes", "--dynamic")
    tapped = train(CLASSES, "--classes", "--dynamic")

    assert tapped.training == plain.training
    assert set(tapped.layers("attention_entropy", 1)) == {0, 1}
    assert set(tapped.layers("class_loss", 1)) == {-1}


def test_sampled_steps_alone_are_read(train):
    tapped = train(ALL, "--steps", "6", sampling={"intervalSteps": 3, "denseFirstSteps": 0})

    assert list(tapped.ring.scalars("grad_norm")) == [3, 6]
    assert sorted(
        {record.step for record in tapped.ring.records if tapped.ring.names[record.name_id].name == "update_ratio"}
    ) == [3, 6]


def test_a_metrics_own_interval_and_filter_hold_for_taps(train):
    metrics = [{"name": "grad_norm", "filter": "value > 3"}, {"name": "local_norm", "intervalSteps": 2}]
    tapped = train(("gradNorm", "localNorms"), sampling={"intervalSteps": 1, "denseFirstSteps": 0}, metrics=metrics)

    assert list(tapped.ring.scalars("grad_norm")) == [1]
    assert list(tapped.ring.scalars("local_norm")) == [2, 4]


def test_histograms_and_images_go_to_the_side_file(train):
    tapped = train(("histograms", "images"), "--images")

    (path,) = tapped.rings.glob(f"*{side.SUFFIX}")
    entries = side_support.read_side(path).entries
    histograms = {entry.name: side.unpack_histogram(entry.payload) for entry in entries if entry.kind == side.HISTOGRAM}
    images = [side.unpack_image(entry.payload) for entry in entries if entry.kind == side.IMAGE]
    assert {name: sum(counts) for name, (_, _, counts) in histograms.items()} == {
        "0.weight": 18,
        "2.weight": 60,
        "2.bias": 1,
    }
    assert [shape for shape, _ in images] == [(6, 5, 1)]
    assert (min(images[0][1]), max(images[0][1])) == (0, 255)


def test_a_monitor_that_asks_for_no_tap_has_none_imported(train):
    untapped = train([])

    assert untapped.answer["taps"] == []
    assert untapped.ring.phase == "done"
