"""Training with the taps that a monitor asks for, and what is read of its ring."""

import json
import re

import ring_support
import training_support as support
from rankbeat_collector.model import reports
from rankbeat_collector.ring import polling
from rankbeat_contract import ring


def train(folder, agent, job, signals, *arguments, **configuration):
    """A finished job; signals None: no agent."""
    variables = environment(folder, agent, signals, configuration)
    done = support.run([str(support.mindspore_python()), str(job), *arguments], variables, folder)
    rings = support.read_rings(folder / "rings")
    return Trained(answer(done.stdout), rings[0] if rings else None, done.stderr, folder / "rings")


class Trained:
    """What a job says of itself, its first ring, what it left on stderr and where its rings are."""

    def __init__(self, answer, ring, stderr, rings):
        self.answer, self.ring, self.stderr, self.rings = answer, ring, stderr, rings

    @property
    def training(self):
        return self.answer["weights"], [step["loss"] for step in self.answer["steps"]]

    def layers(self, name, step):
        """Mean, smallest and largest by layer."""
        return {
            record.layer: (record.value, record.value2, record.value3)
            for record in records(self.ring, name, step)
            if record.head == -1
        }

    def heads(self, name, step):
        return {
            (record.layer, record.head): record.value for record in records(self.ring, name, step) if record.head >= 0
        }


def records(found, name, step):
    return [
        record
        for record in found.records
        if record.kind == ring.KIND_SCALAR and record.step == step and found.names[record.name_id].name == name
    ]


def reported(rings):
    """What the node's collector tells the aggregator of the rank."""
    pod = ring_support.a_pod()
    source = polling.Source(str(rings), lambda: (pod,), lambda _: ())
    made = reports.report(reports.Sender("n1", 5.0), polling.Poller(source).poll(), {}, is_late=False)
    (rank,) = made.body["ranks"]
    return rank


def environment(folder, agent, signals, configuration):
    (folder / "rings").mkdir()
    if signals is None:
        return support.environment(None, None)
    content = {"version": 2, "signals": ["loss", *signals], "attention": {"cells": ["*.softmax"]}, **configuration}
    (folder / "monitor.json").write_text(json.dumps(content))
    return support.environment(agent, folder / "rings", RANKBEAT_CONFIG=str(folder / "monitor.json"))


def answer(output):
    found = re.search(r"^ANSWER (.*)$", output, re.MULTILINE)
    return json.loads(found.group(1)) if found else None
