"""C++ exceptions and the runtime's own checks."""
