"""The agent as pods have it, and trainings with it."""

import functools

import pytest

import signal_trainings
import training_support as support


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """The agent's folder, as a pod's ConfigMap lays it out."""
    return support.pod_folder(tmp_path_factory.mktemp("pod") / "agent")


@pytest.fixture
def trained(tmp_path, agent):
    """A finished job and its ring."""
    return functools.partial(signal_trainings.trained, tmp_path, agent)
