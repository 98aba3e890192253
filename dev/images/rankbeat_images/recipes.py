"""What each image is made of: layers by rate of change, lowest first."""

from dataclasses import dataclass

from rankbeat_images import debian
from rankbeat_images.archive import Settings
from rankbeat_images.python_packages import MINDSPORE_ON_CPU_LEAVES_OUT

SITE = "/opt/site"
OWN = "/opt/rankbeat"
ENVIRONMENT = (
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("LANG", "C.UTF-8"),
    ("PYTHONUNBUFFERED", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
)


@dataclass(frozen=True, slots=True)
class PythonRoot:
    """A root file system with CPython 3.11, for every image the same bytes."""

    name: str = "debian"
    packages: tuple[str, ...] = tuple(debian.PYTHON.split())


@dataclass(frozen=True, slots=True)
class DebianFiles:
    """Some files of Debian packages (all where keep is empty), and links (name, target)."""

    name: str
    packages: tuple[str, ...]
    keep: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LockedPackages:
    """Third-party Python packages at /opt/site. kept: the folder stays on disk, to be mounted instead of baked in."""

    name: str
    locks: tuple[str, ...]
    leave_out: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True, slots=True)
class OwnPackages:
    """Packages of this repository at /opt/rankbeat; the layer that changes."""

    name: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepositoryFiles:
    """Files of this repository, as (source, place in the image); the layer that changes."""

    name: str
    files: tuple[tuple[str, str], ...]


LayerRecipe = PythonRoot | DebianFiles | LockedPackages | OwnPackages | RepositoryFiles


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image. mounted: packages that its containers find at /opt/site only where a volume puts them there."""

    layers: tuple[LayerRecipe, ...]
    settings: Settings
    mounted: LockedPackages | None = None


@dataclass(frozen=True, slots=True)
class HostTool:
    """A program for the host, from a package that an image is made of anyway."""

    image: str
    package: str
    program: str


def is_stable(layer: LayerRecipe) -> bool:
    """Whether a thin archive leaves the layer out: nothing of this repository's code is in it."""
    return not isinstance(layer, OwnPackages | RepositoryFiles)


# numpy is there for tensorboardX, which the collector beside a job writes events with; 9 MB of its 59 are not for that.
NUMPY_LEAVES_OUT = ("numpy/**/tests", "numpy/f2py", "numpy/distutils", "numpy/typing")


def _platform(name: str, locks: tuple[str, ...], packages: tuple[str, ...], leave_out: tuple[str, ...] = ()) -> Recipe:
    settings = Settings((*ENVIRONMENT, ("PYTHONPATH", f"{OWN}:{SITE}")))
    locked = LockedPackages(f"{name}-packages", tuple(f"requirements/{lock}.txt" for lock in locks), leave_out)
    return Recipe((PythonRoot(), locked, OwnPackages(f"{name}-own", packages)), settings)


def _service(package: str, program: str, name: str, files: tuple[str, ...], folder: str) -> Recipe:
    """A Debian daemon under the path that upstream's image has too, /bin/NAME."""
    layer = DebianFiles(package, (package,), (program, *files), ((f"bin/{name}", f"/{program}"),))
    settings = Settings(ENVIRONMENT[:2], (f"/bin/{name}",), folder)
    return Recipe((PythonRoot(), layer), settings)


# The trainer stands for a user's image: nothing of ours is in it, and its packages are found by an image-level
# PYTHONPATH, which an env entry in the pod would replace. It is the case that our injection must not break.
TRAINER = Settings((*ENVIRONMENT, ("PYTHONPATH", SITE)), working_folder="/tmp")
SHELL_TOOLS = "sh cat chmod cp date echo env false grep head hostname kill ls mkdir ps rm sleep touch tr true wc"
TRAINER_TOOLS = DebianFiles(
    "trainer-tools",
    ("libgomp1", "busybox-static"),
    links=(
        *((f"bin/{tool}", "busybox") for tool in SHELL_TOOLS.split()),
        ("usr/bin/tail", "/bin/busybox"),  # msrun --join starts this very path
        ("usr/bin/env", "/bin/busybox"),
    ),
)
TRAINER_FILES = RepositoryFiles(
    "trainer-program",
    (("dev/images/trainer/msrun", "usr/local/bin/msrun"), ("dev/images/trainer/train.py", "opt/train/train.py")),
)
MINDSPORE = LockedPackages("mindspore", ("requirements/mindspore.txt",), MINDSPORE_ON_CPU_LEAVES_OUT, kept=True)

RECIPES = {
    "operator": _platform(
        "operator",
        ("operator", "webhook"),
        (
            "operator/rankbeat_operator",
            "operator/rankbeat_webhook",
            "agent/rankbeat_agent",  # the operator publishes its sources
            "agent/rankbeat_contract",
        ),
    ),
    "node": _platform(
        "node",
        ("collector", "exporter"),
        (
            "agent/rankbeat_collector",
            "node_exporter/rankbeat_exporter",
            "agent/rankbeat_serving",
            "agent/rankbeat_contract",
        ),
        NUMPY_LEAVES_OUT,
    ),
    "aggregator": _platform(
        "aggregator",
        ("aggregator",),
        ("aggregator/rankbeat_aggregator", "agent/rankbeat_contract"),
    ),
    "trainer": Recipe((PythonRoot(), TRAINER_TOOLS, MINDSPORE, TRAINER_FILES), TRAINER),
    "trainer-base": Recipe((PythonRoot(), TRAINER_TOOLS, TRAINER_FILES), TRAINER, MINDSPORE),
    "prometheus": _service("prometheus", "usr/bin/prometheus", "prometheus", (), "/prometheus"),
    "alertmanager": _service(
        "prometheus-alertmanager",
        "usr/bin/prometheus-alertmanager",
        "alertmanager",
        ("usr/share/prometheus/alertmanager/default.tmpl", "usr/share/prometheus/alertmanager/email.tmpl"),
        "/alertmanager",
    ),
}
TOOLS = {
    "promtool": HostTool("prometheus", "prometheus", "usr/bin/promtool"),
    "amtool": HostTool("alertmanager", "prometheus-alertmanager", "usr/bin/amtool"),
}
