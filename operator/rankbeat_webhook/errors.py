"""What goes wrong in the webhook; none of it ever denies a pod."""


class ReviewError(ValueError):
    """A request that is no AdmissionReview of a pod's creation."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"request is no AdmissionReview of a new pod: {reason}; it is answered without a patch")
        self.reason = reason


class WatchError(RuntimeError):
    """A list or watch that the API server did not serve; the cache keeps what it has and asks again."""

    def __init__(self, path: str, status: int, body: str) -> None:
        super().__init__(
            f"{path} answered {status}: {body[:300]!r}; check that the ServiceAccount may list and watch it"
        )
        self.path = path
        self.status = status


class AgentError(RuntimeError):
    """The image holds no agent to mount."""

    def __init__(self, found: int) -> None:
        super().__init__(
            f"no sitecustomize.py among {found} files of the installed agent; build the image with rankbeat"
        )
        self.found = found


class SidecarError(ValueError):
    """The install's values of the sidecar are not what the chart writes."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"RANKBEAT_SIDECAR is no JSON object with image, pullPolicy, pullSecrets and resources: {reason}; "
            "the chart writes it from the values images and sidecar"
        )
        self.reason = reason


class CertificateError(RuntimeError):
    """The folder of certificates holds no usable pair."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"no usable tls.crt and tls.key in {folder!r}: {reason}; the operator writes them, see its log"
        )
        self.folder = folder
