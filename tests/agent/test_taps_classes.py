"""The loss by class in real training, by NumPy, and where there is none."""

from pathlib import Path

import pytest

import tap_trainings
import training_support as support

JOB = Path(__file__).with_name("taps_classes_job.py")

pytestmark = support.TRAINS


@pytest.fixture
def train(tmp_path, agent):
    return lambda *arguments: tap_trainings.train(tmp_path, agent, JOB, ["classLoss"], *arguments)


def expected(trained, rel=1e-4):
    """Of each step the losses by class, in the form of the ring."""
    return [
        {(-1, int(each)): pytest.approx(loss, rel=rel, abs=1e-5) for each, loss in step.items()}
        for step in trained.answer["steps"]
    ]


def told(trained):
    return [trained.heads("class_loss", step) for step in (1, 2, 3)]


@pytest.mark.parametrize("mode", [[], ["--pynative"]], ids=["graph", "pynative"])
@pytest.mark.parametrize("kind", ["indices", "sparse", "pixels"])
def test_the_loss_of_a_class_is_the_mean_over_its_labels_in_the_batch(train, kind, mode):
    trained = train(kind, *mode)

    assert told(trained) == expected(trained)
    assert trained.ring.state.agent_errors == 0
    assert trained.ring.scalars("taps_refused_total") == {1: 0.0}


@pytest.mark.parametrize("kind", ["dense", "probabilities", "ignored", "masked", "own"])
def test_it_is_that_whatever_the_loss_function_is_given(train, kind):
    """Shares of classes as labels; a class that is ignored; a logit of minus infinity; a loss cell of the job's own."""
    trained = train(kind)

    assert told(trained) == expected(trained)
    assert "not observed" not in trained.stderr


def test_a_class_without_labels_is_absent_and_the_layer_sums_up_the_others(train):
    trained = train("ignored")

    for step in (1, 2, 3):
        losses = trained.heads("class_loss", step)
        assert (-1, 2) not in losses
        values = list(losses.values())
        assert trained.layers("class_loss", step) == {
            -1: pytest.approx((sum(values) / len(values), min(values), max(values)))
        }


def test_weights_and_smoothing_of_the_loss_function_are_left_out_and_that_is_said(train):
    trained = train("weighted")

    assert told(trained) == expected(trained)
    assert trained.stderr.count("without the loss function's weight and smoothing") == 1


def test_mixed_precision_trains_with_it(train):
    trained = train("indices", "--half")

    assert told(trained) == expected(trained, rel=0.02)


def test_an_evaluation_within_a_step_leaves_the_steps_own_losses(train):
    trained = train("indices", "--evaluate")

    assert told(trained) == expected(trained)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("many", "300 classes are more than 256"),
        ("unranked", "the rank of logits or labels is not known when the step is compiled"),
        ("squares", "the loss function is a MSELoss, not nn.SoftmaxCrossEntropyWithLogits or nn.CrossEntropyLoss"),
        ("inside", "LossInside computes its loss itself; only a loss function of a WithLossCell is seen"),
    ],
)
def test_what_is_no_loss_by_class_is_refused_and_training_goes_on(train, kind, reason):
    trained = train(kind)

    assert trained.ring.phase == "done"
    assert told(trained) == [{}, {}, {}]
    assert trained.stderr.count(f"classLoss is not observed: {reason}") == 1
    assert trained.ring.state.agent_errors == 0
