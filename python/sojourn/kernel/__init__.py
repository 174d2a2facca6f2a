"""World 2: the real Linux kernel, in a guest on this machine, in virtual time.

`source` and `build` make the kernel, `modules` our modules for it; `store` finds it, `guest` boots it.
"""

from sojourn.kernel.guest import Ended, boot
from sojourn.kernel.image import Kernel
from sojourn.kernel.store import find

__all__ = ["Ended", "Kernel", "boot", "find"]
