"""Kubernetes objects as the API gives them, and their times."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Manifest = Mapping[str, Any]
"""A JSON object. The one place where Any stands for what JSON may hold."""


def seconds(text: str | None) -> float | None:
    """The epoch of an RFC 3339 time, None where there is none."""
    return datetime.fromisoformat(text).timestamp() if text else None


def time_text(epoch_seconds: float) -> str:
    """RFC 3339 in whole seconds, as metav1.Time writes it."""
    return datetime.fromtimestamp(int(epoch_seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels(manifest: Manifest) -> Mapping[str, str]:
    return manifest.get("metadata", {}).get("labels") or {}


def annotations(manifest: Manifest) -> Mapping[str, str]:
    return manifest.get("metadata", {}).get("annotations") or {}
