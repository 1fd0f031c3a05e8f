"""Write needles.txt anew, after a bug was added or changed."""

from pathlib import Path

from postmortem.knowledge.bugs import NEEDLES, needle_table

if __name__ == "__main__":
    (Path(__file__).parent / NEEDLES).write_text(needle_table(), encoding="utf-8")
