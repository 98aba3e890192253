"""Questions to the bundled Prometheus."""

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus at http://HOST:PORT."""

    address: str

    def vector(self, expression: str) -> tuple[tuple[Mapping[str, str], float], ...]:
        """Labels and value of every series of an instant query; empty while nobody answers."""
        url = f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return ()
        return tuple((each["metric"], float(each["value"][1])) for each in found)

    def by_label(self, expression: str, label: str) -> Mapping[str, float]:
        return {labels[label]: value for labels, value in self.vector(expression) if label in labels}

    def number(self, expression: str) -> float:
        """The first value, NaN if there is none."""
        found = self.vector(expression)
        return found[0][1] if found else math.nan
