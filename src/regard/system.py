"""Constants for what operating systems do not have in common."""

import os
import signal
import sys

WINDOWS = sys.platform == "win32"
HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""The signal of a closed terminal; Windows has none."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag with which a file is not opened through a link; Windows has none."""
CLOSED_IN_CHILDREN: int = getattr(os, "O_CLOEXEC", 0)
"""The flag with which a program that is started does not inherit a descriptor; Windows
never passes one on."""
