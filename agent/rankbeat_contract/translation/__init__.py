"""A bare monitor_config, in the shapes that articles and repositories show, as fields of a TrainingMonitor.

What it says of each key: translated to a field, nothing to set (it is so anyway), or refused with the reason.
"""

from rankbeat_contract.translation.effect import Effective, effective
from rankbeat_contract.translation.keys import translated
from rankbeat_contract.translation.outcomes import KEPT, REFUSED, TRANSLATED, Outcome, Translation

__all__ = ("KEPT", "REFUSED", "TRANSLATED", "Effective", "Outcome", "Translation", "effective", "translated")
