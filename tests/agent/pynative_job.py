"""MindFormers' PyNative trainer as far as CPU can show it: its handler, state, store and train() are the real ones.

The trainer cannot be made here, since hyper_parallel is on no index; what it needs of it to be imported is left empty,
and its inner loop is replaced by one that calls the handler as the real one does, in its order.
"""

import argparse
import sys
import types

import mindformers  # noqa: F401 - before the stand-in below: its models look whether hyper_parallel is there
import mindspore as ms
from mindspore import Tensor


class Absent(types.ModuleType):
    """hyper_parallel: any name is a class without content."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None})


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "hyper_parallel":
            return None
        from importlib.machinery import ModuleSpec  # noqa: PLC0415

        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())

from mindformers.pynative.callback import CallbackHandler, LossCallback, TrainerCallback  # noqa: E402
from mindformers.pynative.trainer.trainer import Trainer  # noqa: E402


class Own(TrainerCallback):
    """The job's own callback: logs to the trainer's store what LossCallback does, and fails where asked to."""

    def __init__(self, fail_at, *, fails_late=False):
        self.fail_at, self.fails_late = fail_at, fails_late

    def on_step_end(self, args, state, **kwargs):
        if state.global_step == self.fail_at and not self.fails_late:
            raise LookupError("asked to fail")
        loss = kwargs["loss"]
        values = {"loss": None if loss is None else float(loss.asnumpy()), "cur_step": state.global_step}
        more = {"loss_scale": 1.0, "grad_norm": kwargs["grad_norm"], "learning_rate": 0.5 / state.global_step}
        LossCallback._save_monitor_data({**values, **more})
        print(f"step {state.global_step} loss {values['loss']!r}", flush=True)
        if state.global_step == self.fail_at:
            raise LookupError("asked to fail")


class Shown(Trainer):
    """The real train() around a loop that is not."""

    def __init__(self, arguments):
        self.arguments = arguments
        checkpoint = types.SimpleNamespace(save_interleaved_steps=0, load_path="", base_load_path="")
        training = types.SimpleNamespace(steps=arguments.resumed + arguments.steps)
        self.config = types.SimpleNamespace(training=training, checkpoint=checkpoint)
        self.train_epoch_step, self.global_batch_size, self.num_accumulation_steps = 3, 64, 1
        self.parallel_dims, self._resumed, self._balance_source = None, False, None
        self.communication_init, self.enable_parallel, self.model = False, True, [None]
        self.monitor = types.SimpleNamespace(setup=lambda *_: None, close=lambda: None)
        self.callback_handler = CallbackHandler([Own(arguments.fail_at, fails_late=arguments.fail_late)])

    def _register_grad_hooks(self):
        self.state.global_step = self.arguments.resumed

    def _inner_train_loop(self):
        state, handler = self.state, self.callback_handler
        while state.global_step < state.max_steps:
            if state.global_step % state.epoch_step == 0 and state.global_step > 0:
                handler.on_epoch_begin(self.config, state)
            handler.on_step_begin(self.config, state)
            state.global_step += 1
            loss = None if self.arguments.middle_stage else Tensor(2.0 / state.global_step, ms.float32)
            handler.on_step_end(self.config, state, loss=loss, grad_norm=0.25)
            if state.global_step % state.epoch_step == 0:
                handler.on_epoch_end(self.config, state)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--resumed", type=int, default=0)
    parser.add_argument("--fail-at", type=int, default=0)
    parser.add_argument("--fail-late", action="store_true", help="after the step was logged")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--middle-stage", action="store_true")
    arguments = parser.parse_args()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        Shown(arguments).train()
    except LookupError:
        if not arguments.again:
            raise
        print("caught", flush=True)
        arguments.fail_at = 0
        Shown(arguments).train()


if __name__ == "__main__":
    main()
