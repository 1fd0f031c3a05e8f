"""The command line: one module a command, imported only when that command is asked for."""
