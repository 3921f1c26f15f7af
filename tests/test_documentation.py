"""README, pages and notebooks: their code runs, and nothing public is left out."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from helpers import before_releases
from nbclient import NotebookClient

import jaxrb

ROOT = Path(jaxrb.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/pages").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Gradients through impacts, and contacts that last, take minutes to compile.
LONG = [path for path in NOTEBOOKS if path.stem[:2] in {"02", "06", "07"}]
QUICK = [path for path in NOTEBOOKS if path not in LONG]
# So do the blocks of these pages.
LONG_PAGES = [
    path for path in PAGES if path.stem in {"concepts", "fitting", "extending", "scaling"}
]
QUICK_PAGES = [path for path in PAGES if path not in LONG_PAGES]
MODULES = ["jaxrb", "jaxrb.optimize", "jaxrb.viz", "jaxrb.io", "jaxrb.rotations"]


BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```)?", re.MULTILINE | re.DOTALL
)
RECIPE = re.compile(
    r'^```python title="(?P<file>with_\w+\.py)"\n(?P<code>.*?)^```\n', re.MULTILINE | re.DOTALL
)
LIBRARIES = {
    "with_ray.py": "ray",
    "with_dask.py": "distributed",
    "with_orbax.py": "orbax.checkpoint",
}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
END = "end of a block"


def blocks(page):
    """The code of each block, and what it prints, where the page says so."""
    return [match.group("code", "output") for match in BLOCK.finditer(page.read_text())]


def words_and_numbers(text):
    """The numbers of a text, and the rest with single spaces."""
    return NUMBER.sub("#", " ".join(text.split())), [float(x) for x in NUMBER.findall(text)]


def public(name):
    """The names a module re-exports, and what they are."""
    module = importlib.import_module(name)
    values = {n: getattr(module, n) for n in module.__all__}
    return {n: v for n, v in values.items() if inspect.isclass(v) or inspect.isfunction(v)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [*QUICK_PAGES, *before_releases(*LONG_PAGES)], ids=lambda page: page.stem
)
def test_code_blocks_run(page, tmp_path):
    """Those of one page after each other, in a process of their own, with the output that the
    page shows: to the digits printed, but for what is zero to round-off."""
    code = "".join(f"{code}\nprint({END!r})\n" for code, _ in blocks(page))
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for (_, expected), printed in zip(blocks(page), run.stdout.split(END), strict=False):
        if expected is not None:
            words, numbers = words_and_numbers(expected)
            found_words, found_numbers = words_and_numbers(printed)
            assert found_words == words
            assert found_numbers == pytest.approx(numbers, rel=1e-3, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("file", LIBRARIES)
def test_recipes_run_where_their_library_is(file, tmp_path):
    """Those of the page on many machines, by its module of what is simulated."""
    page = ROOT / "docs/pages/scaling.md"
    recipes = dict(RECIPE.findall(page.read_text()))
    assert recipes.keys() == LIBRARIES.keys()
    # Not imported: some warn, and warnings are errors here.
    package, _, module = LIBRARIES[file].partition(".")
    missing = importlib.util.find_spec(package) is None
    if missing or (module and importlib.util.find_spec(LIBRARIES[file]) is None):
        pytest.skip(f"{LIBRARIES[file]} is not installed")
    (module, _), *_ = blocks(page)
    (tmp_path / "throws.py").write_text(module)
    (tmp_path / file).write_text(recipes[file])
    command, path = [sys.executable, file], [str(ROOT), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        check=True,
        timeout=600,
    )
    if file != "with_orbax.py":
        assert jaxrb.io.open_parts(tmp_path / "throws").missing == ()


@pytest.mark.slow
@pytest.mark.parametrize("path", [*QUICK, *before_releases(*LONG)], ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_one_version():
    """That of `jaxrb/__init__.py`, which the build reads; citations name the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "jaxrb/__init__.py"
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited and cited[1] == jaxrb.__version__
    bibtex = re.search(r"version\s*= \{(.*?)\}", (ROOT / "README.md").read_text())
    assert bibtex and bibtex[1] == jaxrb.__version__


def test_ci_runs_the_oldest_jax():
    """Its matrix names versions; the first is the lower bound of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {
        name: low
        for name, low in (re.findall(r"^(\w+)>=([\d.]+)", d)[0] for d in project["dependencies"])
    }
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    for name in ("jax", "equinox"):
        tested = re.findall(rf'{name}: "([\d.]+)"', workflow)
        assert len(tested) == 2 and tested[0] == bounds[name]
    assert project["requires-python"] == ">=" + re.findall(r'python: "([\d.]+)"', workflow)[0]


def test_pages_ask_no_foreign_server():
    """The theme would load fonts, and for `repo_url` numbers of GitHub, in the reader's browser."""
    config = (ROOT / "docs/mkdocs.yml").read_text()
    assert re.search(r"^  font: false$", config, re.MULTILINE)
    assert not re.search(r"^\s*(repo_url|extra_javascript|extra_css|analytics)\b", config, re.M)
    for page in (ROOT / "docs/pages").rglob("*.md"):
        assert not re.search(r"!\[[^]]*\]\(https?:|<(img|script|link|iframe)\b", page.read_text())


def test_there_are_pages_and_notebooks():
    assert len(blocks(PAGES[0])) >= 1
    assert len(NOTEBOOKS) >= 6


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_docstrings(module):
    for name, value in public(module).items():
        assert value.__doc__, f"{module}.{name}"
        # Equinox and dataclasses write signatures where there is no text.
        assert not value.__doc__.startswith(f"{name}("), f"{module}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_in_the_reference(module):
    reference = "".join(page.read_text() for page in (ROOT / "docs/pages/api").glob("*.md"))
    listed = {line.rsplit(".", 1)[1] for line in re.findall(r"^::: (\S+)$", reference, re.M)}
    assert set(public(module)) - listed == set()


def test_the_reference_names_what_exists():
    for page in (ROOT / "docs/pages/api").glob("*.md"):
        for path in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            owner, name = path.rsplit(".", 1)
            try:
                found = hasattr(importlib.import_module(owner), name)
            except ModuleNotFoundError:
                found = False
            assert found, path
