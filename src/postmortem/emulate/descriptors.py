"""A small limit of open files (EMFILE)."""

import resource

from postmortem.emulate.fault import CannotEmulate, Fault


class Descriptors(Fault):
    """`count` open files for each process, and no way to have more."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.limits = {resource.RLIMIT_NOFILE: (count, count)}
        self.happened = f"{count} open files for each process"

    def enter(self) -> None:
        """Refuse what would be no fault."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and self._count > hard:
            raise CannotEmulate(f"the limit is {hard} already, less than {self._count}")
