"""What a training script imports."""

import subprocess
import sys

LIGHT = """\
import sys
before = set(sys.modules)
import rankbeat
rankbeat.log(accuracy=0.5)
print(sorted(name for name in set(sys.modules) - before if not name.startswith("_")))
"""


def test_importing_it_brings_nothing_with_it_and_log_does_nothing_without_an_agent():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "['rankbeat']\n"


def test_log_speaks_to_the_agent_where_there_is_one():
    program = """\
import sys, types
user = types.ModuleType("rankbeat_agent.hooks.user")
user.log = print
sys.modules[user.__name__] = user
import rankbeat
rankbeat.log(accuracy=0.5, f1=1)
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "{'accuracy': 0.5, 'f1': 1}\n"


def test_an_attribute_that_is_not_there_is_told_as_usual():
    program = "import rankbeat\nrankbeat.nothing"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert "module 'rankbeat' has no attribute 'nothing'" in done.stderr
