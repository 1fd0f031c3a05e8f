"""Loads the extension module of this folder and has it encode an object without an array."""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

spec = spec_from_loader("rows", ExtensionFileLoader("rows", sys.argv[1]))
rows = module_from_spec(spec)


def collate(batch: object) -> object:
    return rows.encode(batch)


collate(object())
