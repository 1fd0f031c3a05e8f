"""Permissions, devices, programs and libraries that cannot be had."""
