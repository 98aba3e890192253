"""Jobs of the end-to-end tests that train for a while and end: two real ranks under msrun."""

import re

from product import Product, a_job, wait

TRAINING = (
    "exec msrun --worker_num=2 --local_worker_num=2 --master_addr=127.0.0.1 --master_port=8118 --join=True "
    "--log_dir=/tmp/msrun /opt/train/train.py --steps 200 --step-milliseconds 5"
)


def trainer(command: str, **limits: str) -> dict[str, dict[str, object]]:
    """Container and pod, as a_job takes them: the trainer's image as `restricted` wants it, with a /tmp to write to."""
    container = {
        "image": "localhost/rankbeat/trainer:dev",
        "command": ["sh", "-c", command],
        "workingDir": "/tmp",
        "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "1536Mi", **limits}},
        "securityContext": {"readOnlyRootFilesystem": True, "runAsUser": 65532, "runAsNonRoot": True},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
        "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": 65532},
    }
    return {"container": container, "pod": pod}


def training_job(name: str, namespace: str, mode: str = "graph", **changes: object) -> dict[str, object]:
    """One pod with two real ranks, in the trainer's image: MindSpore is found by the image's own PYTHONPATH only."""
    return a_job(name, namespace, **trainer(f"{TRAINING} --mode {mode}"), backoffLimit=2, **changes)


def log_of(product: Product, namespace: str, job: str) -> str:
    """The whole log of a job whose ranks have both said their last line."""

    def finished() -> str | None:
        text = product.kubectl("-n", namespace, "logs", f"job/{job}", "--tail=-1")
        return text if len(final_lines(text)) == 2 else None

    return wait(f"both ranks of {job} at their end", finished, 240)


def final_lines(text: str) -> list[str]:
    """`rank R final loss X weights SHA1`, one a rank."""
    return sorted(set(re.findall(r"rank \d+ final loss \S+ weights [0-9a-f]+", text)))


def has_teardown_crash(text: str) -> bool:
    """MindSpore's own, in about 1 of 23 finished runs (docs/sources.md, MindSpore)."""
    return "Error code: -11" in text
