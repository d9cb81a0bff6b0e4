"""A stage that changes torch's defaults -> the next stage of the process finds them as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """Within it torch's default dtype and device may be changed; afterwards they are what they were.

    A score that sets float64 would make the networks of the next training in its process double, and a thread of the
    driver would do so for all of them. Torch is not imported for this.
    """
    torch = sys.modules.get("torch")
    dtype, device = (torch.get_default_dtype(), torch.get_default_device()) if torch else (None, None)
    try:
        yield
    finally:
        if torch := sys.modules.get("torch"):
            torch.set_default_dtype(dtype or torch.float32)
            if torch.get_default_device() != (device or torch.device("cpu")):  # "cpu" set by hand would move tensors
                torch.set_default_device(device if device and device.type != "cpu" else None)
