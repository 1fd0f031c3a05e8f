"""PyTorch in half of the time, for processes of a live test that need little of it.

Without garbage being looked for while a thousand modules are imported, nor later in what they leave;
and without the formulas for tensors of no device, which a job over gloo never asks for (what compiles
does, and with it an optimizer or a loader of data).
"""

import gc
import sys
import types

gc.disable()
sys.modules["torch._meta_registrations"] = types.ModuleType("torch._meta_registrations")
