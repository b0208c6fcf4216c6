"""The Python lines of README.md, python/README.md and docs/python.md run as they stand."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["README.md", "python/README.md", "docs/python.md"])
def test_lines_run(name, tmp_path):
    text = (TOP / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks, f"{name} has no Python lines"
    if not any("import pyleat" in block for block in blocks):
        pytest.fail(f"{name} does not import pyleat")
    # Those for PyTorch, CuPy and Numba need a GPU; their own tests run such lines.
    runnable = [block for block in blocks if not re.search("torch|cupy|numba", block)]
    (tmp_path / "lines.py").write_text("\n".join(runnable))
    done = subprocess.run(
        [sys.executable, "lines.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
