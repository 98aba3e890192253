"""The small job of tests/agent, which prints its losses in the form that any loop may use."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))

import job


class Printing(job.Losses):
    """Prints step and loss."""

    def on_train_step_end(self, run_context):
        parameters = run_context.original_args()
        loss = float(parameters.net_outputs.asnumpy())
        print(f"[Monitor] step: {parameters.cur_step_num}, loss: {loss:.6f}", flush=True)


job.Losses = Printing
job.main()
