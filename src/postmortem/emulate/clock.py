"""Clocks that are ahead: monotonic and boot time, in a time namespace."""

from postmortem.emulate.fault import CannotEmulate, Fault
from postmortem.emulate.namespaces import NEW_TIME, enter


class Clock(Fault):
    """CLOCK_MONOTONIC and CLOCK_BOOTTIME are `offset` seconds ahead (time_namespaces(7))."""

    def __init__(self, offset: float, *, realtime: bool) -> None:
        self._offset = offset
        self._realtime = realtime
        self.happened = f"the monotonic and the boot clock {offset:+g} s off"

    def enter(self) -> None:
        """Make the namespace: our children are in it, we are not."""
        if self._realtime:
            raise CannotEmulate(
                "Linux has no namespace for the time of day (CLOCK_REALTIME), and to set it would "
                "change it for all; libfaketime can tell one program another time"
            )
        enter(NEW_TIME, "time namespace")
        whole = int(self._offset // 1)
        rest = int((self._offset - whole) * 1e9)
        try:
            with open("/proc/self/timens_offsets", "w") as stream:  # noqa: PTH123
                stream.write(f"monotonic {whole} {rest}\nboottime {whole} {rest}\n")
        except OSError as error:
            raise CannotEmulate(
                f"an offset of {self._offset:g} s is not taken: {error.strerror} (a clock cannot "
                "be before the start of the machine)"
            ) from None
