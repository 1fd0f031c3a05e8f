"""Hooks of mkdocs: links out of docs/ lead to the repository, where those files are."""

import re
from pathlib import Path
from typing import Any

_OUT = re.compile(r"\]\((?:\.\./)+(?P<path>[^)#]+)(?P<mark>#[^)]*)?\)")
_ROOT = Path(__file__).resolve().parent.parent


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page whose links out of the folder are addresses; one that leads nowhere fails."""

    def address(found: re.Match[str]) -> str:
        folder = Path(page.file.abs_src_path).parent
        target = (folder / found[0][2:-1].partition("#")[0]).resolve()
        if (_ROOT / "docs") in target.parents:
            return found[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_path}: there is no {found['path']}")
        kind = "tree" if target.is_dir() else "blob"
        path = target.relative_to(_ROOT)
        return f"]({config['repo_url']}/{kind}/main/{path}{found['mark'] or ''})"

    return _OUT.sub(address, markdown)
