"""Numbers of bytes as people say them."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that keeps it above 1: ``4.0 GiB``."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
