"""scikit-build-core, asked for oneTBB from PyPI only where the system has none.

A build requirement that is always listed would shadow the system's library, whose licence lets a wheel be
passed on; PyPI's binary is the way out for a machine without libtbb-dev. docs/design/0006-tbb-in-the-wheel.md.
"""

import os
import sys
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

_HEADER = "include/oneapi/tbb/version.h"


def _system_tbb() -> bool:
    named = [os.environ.get(name, "") for name in ("CMAKE_PREFIX_PATH", "TBB_ROOT", "TBBROOT", "CONDA_PREFIX")]
    prefixes = [part for value in named for part in value.split(os.pathsep) if part]
    return any((Path(prefix) / _HEADER).exists() for prefix in [*prefixes, sys.prefix, "/usr/local", "/usr"])


def _with_tbb(requirements):
    return requirements if _system_tbb() else [*requirements, "tbb-devel>=2021.8"]


def get_requires_for_build_wheel(config_settings=None):
    return _with_tbb(_build.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings=None):
    return _with_tbb(_build.get_requires_for_build_editable(config_settings))
