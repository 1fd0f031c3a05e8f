"""Kernel logs in all forms that tools give them: dmesg, journalctl, syslog, /dev/kmsg."""
