"""A TrainingMonitor as the operator reads it."""

from dataclasses import dataclass

from rankbeat_contract import monitor as contract
from rankbeat_contract import names, translation
from rankbeat_contract.translation import Outcome
from rankbeat_operator.model.manifests import Manifest, annotations

API_VERSION = f"{names.GROUP}/{names.VERSION}"


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be observed: a Job by name, or pods by label."""

    job: str = ""
    pod_selector: Manifest | None = None

    def label_selector(self) -> str:
        """The pods, as the API takes it in a query."""
        if self.pod_selector is None:
            return f"batch.kubernetes.io/job-name={self.job}"
        labels = self.pod_selector.get("matchLabels") or {}
        expressions = self.pod_selector.get("matchExpressions") or ()
        return ",".join([*(f"{key}={value}" for key, value in labels.items()), *(_requirement(e) for e in expressions)])


@dataclass(frozen=True, slots=True)
class Monitor:
    """One TrainingMonitor.

    reset: value of the annotation that closes the breaker, "" without it.
    status: as last written.
    has_bare_configuration: whether it has a spec.monitorConfig or a spec.mindformers.monitorConfig.
    refused: what of these is not heeded, and why.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    target: Target
    settings: contract.Settings
    reset: str
    status: Manifest
    has_bare_configuration: bool = False
    refused: tuple[Outcome, ...] = ()


def target(spec: Manifest) -> Target:
    """The target in a spec."""
    return Target(job=(spec.get("workloadRef") or {}).get("name", ""), pod_selector=spec.get("podSelector"))


def _requirement(expression: Manifest) -> str:
    key, values = expression["key"], ",".join(expression.get("values") or ())
    texts: dict[str, str] = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return texts[expression["operator"]]


def monitor(manifest: Manifest) -> Monitor:
    """The monitor in an object that the API server has checked.

    Raises: ValueError on a spec that the schema in the repository would have refused.
    """
    metadata, spec = manifest["metadata"], manifest["spec"]
    effective = translation.effective(spec)
    return Monitor(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        target=target(spec),
        settings=contract.settings(effective.spec),
        reset=annotations(manifest).get(names.ANNOTATION_BREAKER, "")[:256],
        status=manifest.get("status") or {},
        has_bare_configuration="monitorConfig" in spec or "monitorConfig" in (spec.get("mindformers") or {}),
        refused=effective.refused,
    )
