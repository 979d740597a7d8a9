"""The code of docs/python.md as scripts. A block that begins with an import begins a new one; those after it go on there.

    python doc_examples.py PAGE FOLDER      writes them into a folder, for a type checker
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def scripts(page: Path = PAGE) -> list[str]:
    found: list[str] = []
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        if block.startswith("import"):
            found.append(block)
        else:
            found[-1] += block
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for i, script in enumerate(scripts(Path(sys.argv[1]))):
        (folder / f"example_{i}.py").write_text(script)
