"""What a job does beside training steps, one way a run; it says in which phase the agent, if there is one, saw it."""

import argparse
import os
import sys
from enum import Enum

import mindspore as ms
import numpy as np
from mindspore import dataset, nn
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import MAE, Callback, Model, ModelCheckpoint, RunContext

FEATURES, BATCH = 8, 4


def say(place):
    """The phase that stands in this process's ring now."""
    hooks = sys.modules.get("rankbeat_agent.hooks.rank")
    if hooks is not None and hooks.RANK.writer is not None:
        from rankbeat_contract import ring  # noqa: PLC0415 - there only where the agent is

        print(f"{place}: {ring.PHASES[hooks.RANK.writer.phase]}", flush=True)
    return True


def data(steps=4):
    features = np.ones((steps * BATCH, FEATURES), np.float32)
    return NumpySlicesDataset((features, features[:, :1]), ["x", "y"], shuffle=False).batch(BATCH)


class Measured(MAE):
    def update(self, *inputs):
        say("metric")
        super().update(*inputs)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(FEATURES, 1)
        self.is_predicting = False

    def construct(self, x):
        if self.is_predicting:
            say("predict")
        return self.dense(x)


class Built(Model):
    def _init(self, *args, **kwargs):
        say("build")


class At(Callback):
    """Calls something at the end of a step."""

    def __init__(self, step, call):
        super().__init__()
        self.step, self.call = step, call

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            self.call()


def a_model(kind=Model):
    network = Network()
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.05, momentum=0.9)
    return kind(network, loss_fn=nn.MSELoss(), optimizer=optimizer, metrics={"mae": Measured()})


def evaluate():
    model = a_model()
    model.train(1, data(), callbacks=At(2, lambda: model.eval(data(1))))
    say("between")
    model.eval(data(1))
    say("after")


def predict():
    model = a_model(Built)
    model.train(1, data())
    model.build(data())
    model._network.is_predicting = True
    model.predict(ms.Tensor(np.ones((1, FEATURES), np.float32)))
    say("after")


def checkpoint():
    from mindspore.train.serialization import load_checkpoint, save_checkpoint  # noqa: PLC0415 - one way of two

    model = a_model()
    model.train(1, data(), callbacks=At(3, lambda: save_checkpoint(model._network, "a.ckpt", choice_func=say_saving)))
    ms.save_checkpoint(model._network, "b.ckpt", choice_func=say_saving)
    load_checkpoint("a.ckpt", choice_func=lambda _name: say("load"))
    try:
        ms.load_checkpoint("none.ckpt")
    except ValueError:
        say("no file")
    model.train(1, data(), callbacks=ModelCheckpoint("own", "."))


def say_saving(_name):
    return say("save")


def names():
    """Where MindSpore's own modules and users find the functions."""
    from mindspore.train import callback, model, serialization  # noqa: PLC0415

    saves = (ms, ms.train, serialization, model, callback._checkpoint, callback._on_request_exit)
    print("save", {getattr(place.save_checkpoint, "__wrapped__", None) is not None for place in saves}, flush=True)
    print("save", len({id(place.save_checkpoint) for place in saves}), flush=True)
    loads = (ms.load_checkpoint, ms.load_param_into_net, ms.load_distributed_checkpoint)
    more = (ms.parallel.load_distributed_checkpoint, ms.parallel.load_segmented_checkpoints)
    print("load", {hasattr(load, "__wrapped__") for load in (*loads, *more)}, flush=True)


def fail():
    raise ZeroDivisionError("asked to fail")


def trains_and_fails():
    model = a_model()
    try:
        model.train(1, data(), callbacks=At(2, fail))
    except ZeroDivisionError:
        say("caught")
    return model


def recover():
    model = trains_and_fails()
    model.eval(data(1))
    say("evaluated")
    model.train(1, data(), callbacks=At(1, lambda: say("first step")))
    say("between")


def give_up():
    trains_and_fails()


def exit_after_failure():
    trains_and_fails()
    sys.exit(1)


def exit_after_training():
    a_model().train(1, data())
    sys.exit("no good model")


def exit_well():
    a_model().train(1, data())
    sys.exit(0)


def quit_after_training():
    a_model().train(1, data())
    exit(code=3)  # noqa: PLR1722 - of the site module


def raise_after_training():
    a_model().train(1, data())
    raise SystemExit(1)


def exit_is_caught():
    model = a_model()
    model.train(1, data())
    try:
        sys.exit(1)
    except SystemExit:
        model.train(1, data())


def leave_badly():
    a_model().train(1, data())
    os._exit(7)


def leave_well():
    a_model().train(1, data())
    sys.stdout.flush()
    os._exit(0)


class Repair:
    """The vendor's library that MindSpore asks what to do after a fault: it puts everything back to step 2."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    Action = Enum("Action", ["EXIT"])
    ReportState = Enum("ReportState", ["RS_UCE", "RS_UNKNOWN"])

    def tft_report_error(self, _state):
        pass

    def tft_wait_next_action(self):
        say("repairing")
        self.optimizer.global_step.set_data(ms.Tensor([2], ms.int32))
        return "go on"

    def tft_get_repair_step(self):
        return 2


def fault_tolerance():
    """MindSpore's own recovery (MS_ENABLE_TFT): an error of the device is caught inside train(), which goes on."""
    from mindspore.train import TrainFaultTolerance  # noqa: PLC0415

    class OnCpu(TrainFaultTolerance):
        """Without what asks for a device: registering with the vendor's library, reporting, clearing gradients."""

        def __init__(self, optimizer):
            self.tft = Repair(optimizer)

        def on_train_begin(self, run_context):
            self.cb_params = run_context.original_args()

        def on_train_step_end(self, run_context):
            pass

        def on_train_end(self, run_context):
            pass

        def _reset_acc_grads(self):
            pass

    faults = []

    def fault():
        if not faults:
            faults.append(1)
            raise RuntimeError("UCEError occurred, asked for")

    model = a_model()
    model.train(1, data(8), callbacks=[OnCpu(model._optimizer), At(5, fault)], dataset_sink_mode=False)
    say("between")


class Rows:
    """A source of rows for dataset workers of their own process, which say who they are.

    A spawned worker gets this class by value, without the module's imports.
    """

    def __init__(self):
        self.own, self.rows, self.features = os.getpid(), 4 * BATCH, FEATURES

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        import os  # noqa: PLC0415
        import sys  # noqa: PLC0415

        import numpy  # noqa: PLC0415, ICN001

        hooks = sys.modules.get("rankbeat_agent.hooks.rank")
        is_rank = hooks is not None and hooks.RANK.writer is not None
        row = numpy.full(self.features, float(os.getpid() != self.own) + 10 * is_rank, numpy.float32)
        return row, row[:1]


class FromWorkers(Callback):
    """Prints what the rows of each step were: 1 where a worker that is no rank made them."""

    def on_train_step_end(self, run_context):
        element = run_context.original_args().train_dataset_element[0]
        print("rows", set(element.asnumpy().ravel().tolist()), flush=True)


def workers(method):
    dataset.config.set_multiprocessing_start_method(method)
    rows = dataset.GeneratorDataset(Rows(), ["x", "y"], num_parallel_workers=2, python_multiprocessing=True)
    a_model().train(2, rows.batch(BATCH), callbacks=FromWorkers(), dataset_sink_mode=False)


def forked():
    workers("fork")


def spawned():
    workers("spawn")


def sink():
    """Sink mode, which CPU does not have: MindSpore's own callback manager with the numbers that it would give."""
    from mindspore.train.callback import _callback  # noqa: PLC0415

    from rankbeat_agent.hooks import model  # noqa: PLC0415 - the case is about the agent's callbacks

    (_, arguments) = model.surrounded(2, (), {})
    parameters = _callback.InternalCallbackParam()
    parameters.update(cur_step_num=0, epoch_num=3, batch_num=20, dataset_sink_mode=True, list_callback=[])
    parameters.update(optimizer=None, net_outputs=ms.Tensor(0.5, ms.float32), train_dataset=data(20))
    context = RunContext(parameters)
    with _callback.CallbackManager(arguments["callbacks"]) as manager:
        manager.on_train_begin(context)
        for _ in range(3):
            manager.on_train_epoch_begin(context)
            parameters["cur_step_num"] += 20
            manager.on_train_step_begin(context)
            manager.on_train_step_end(context)
            manager.on_train_epoch_end(context)
        manager.on_train_end(context)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    arguments = parser.parse_args()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE if arguments.case == "predict" else ms.GRAPH_MODE)
    globals()[arguments.case]()


if __name__ == "__main__":
    main()
