"""Builds the wheel of pyleat: leat's libraries by leat's Makefile, stripped, with the tag that their symbols need.

PYLEAT_MAKE has further arguments of make, such as "CC=clang".
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
# The files of the wheel, and those of the build folder.
LIBRARIES = {
    "libleat.so.0": "libleat.so.0",
    "libleat-files.so.0": "libleat-files.so.0",
    "libpyleat.so": "python/libpyleat.so",
    "libpyleat-torch.so": "python/libpyleat-torch.so",
}


def build_folder() -> Path:
    return Path(os.environ.get("PYLEAT_BUILD", TOP / "build" / "wheel"))


def newest_glibc(folder: Path) -> str:
    """Return the newest version of glibc that a library in the folder needs, as "2_34"."""
    versions = {(2, 17)}  # the oldest that a manylinux tag names
    for library in sorted(folder.glob("*.so*")):
        symbols = subprocess.run(["objdump", "-T", str(library)], check=True, capture_output=True, text=True).stdout
        versions |= {tuple(map(int, found)) for found in re.findall(r"\(?GLIBC_(\d+)\.(\d+)", symbols)}
    return "_".join(map(str, max(versions)))


class BuildPy(build_py):
    """Adds the libraries to the package."""

    def run(self) -> None:
        super().run()
        build = build_folder()
        make = ["make", "-C", str(TOP), f"-j{os.cpu_count()}", f"BUILD={build}", "python-libraries"]
        # The jobserver of a make that calls pip does not reach through pip.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        subprocess.run([*make, *shlex.split(os.environ.get("PYLEAT_MAKE", ""))], check=True, env=environment)
        folder = Path(self.build_lib) / "pyleat" / "lib"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, source in LIBRARIES.items():
            subprocess.run(["strip", "--strip-unneeded", "-o", str(folder / name), str(build / source)], check=True)
            (folder / name).chmod(0o755)


class WithLibraries(Distribution):
    """Files for one kind of machine: they are installed where compiled modules are."""

    def has_ext_modules(self) -> bool:
        return True


class BdistWheel(bdist_wheel):
    """One wheel for all versions of Python, since no file of it knows Python's ABI."""

    def get_tag(self) -> tuple:
        machine = os.uname().machine
        folder = Path(self.get_finalized_command("build_py").build_lib) / "pyleat" / "lib"
        return "py3", "none", f"manylinux_{newest_glibc(folder)}_{machine}"


shutil.copyfile(TOP / "LICENSE", HERE / "LICENSE")
setup(
    version=(TOP / "VERSION").read_text().strip(),
    distclass=WithLibraries,
    cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel},
)
