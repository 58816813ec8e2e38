"""What a release promises: its metadata agree, its pictures are seen, and the notices of others go along."""

import email
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import neuralrace as nr
from neuralrace.laboratory.page import FOLDER

ROOT = Path(__file__).parents[1]
LIBRARY, PAPERS = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "papers")
)
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
NOTICES = (
    "Khan Academy",
    "Permission is hereby granted",
    "SIL Open Font License",
    "diffrax",
    "Apache License",
)


def urls():
    """The tool that knows the address of the project."""
    spec = importlib.util.spec_from_file_location("urls_tool", ROOT / "tools/urls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tracked():
    """Text files of the project."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("the project is no git checkout here")
    for name in listed.stdout.splitlines():
        if (file := ROOT / name).suffix in {
            ".py",
            ".md",
            ".toml",
            ".cff",
            ".yml",
            ".yaml",
            ".ts",
            ".mjs",
            ".json",
        }:
            yield name, file.read_text(encoding="utf-8")


def test_the_address_of_the_project_is_the_same_everywhere():
    tool = urls()
    address = tool.address()
    for project in (LIBRARY, PAPERS):
        assert set(project["urls"]) == {"Source", "Documentation", "Changelog", "Issues"}
        assert all(url.startswith(address) for url in project["urls"].values())
    assert {CITATION["url"], CITATION["repository-code"]} == {address}
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    for rule in hooks["fancy-pypi-readme"]["substitutions"]:
        assert address in rule["replacement"]
    named = {line.split(":")[0] for line in tool.lines(address)}
    assert named == set(tool.FILES)  # so that `tools/urls.py NEW` reaches all of them
    own = {"tools/urls.py", *tool.FILES}
    assert not [
        name for name, text in tracked() if name not in own and (address in text or tool.RESERVED in text)
    ]


def test_authors_versions_and_licences_agree():
    assert (
        LIBRARY["authors"] == PAPERS["authors"] == CITATION["authors"] == [{"name": "neuralrace developers"}]
    )
    assert CITATION["version"] == PAPERS["version"] == nr.__version__
    assert f"neuralrace[plot,data,sklearn,optax,diffrax]=={nr.__version__}" in PAPERS["dependencies"]
    assert f"{{{nr.__version__}}}" in (ROOT / "docs/references.md").read_text()
    assert LIBRARY["license"] == PAPERS["license"] == CITATION["license"] == "MIT"
    assert "The neuralrace developers" in (ROOT / "LICENSE").read_text()
    assert (ROOT / "papers/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_notices_of_others_are_whole():
    text = (ROOT / "THIRD_PARTY.md").read_text()
    assert all(notice in text for notice in NOTICES)
    lock = (ROOT / "frontend/package.json").read_text()
    katex = re.search(r'"katex": "([\d.]+)"', lock)
    assert katex
    assert f"KaTeX {katex[1]}," in text
    bundled = set(re.findall(r'"([\w@/-]+)":', lock.split('"dependencies"')[1].split("}")[0]))
    assert bundled == {"katex"}, (
        "a new dependency of the page belongs in THIRD_PARTY.md and frontend/build.mjs"
    )


@pytest.mark.skipif(not FOLDER.exists(), reason="the page is not built: python frontend/build.py builds it")
def test_every_script_and_style_of_the_page_carries_the_notices():
    built = [file for file in FOLDER.rglob("*") if file.suffix in (".js", ".css")]
    assert len(built) >= 4
    for file in built:
        text = file.read_text(encoding="utf-8")
        missing = [notice for notice in NOTICES if notice not in text]
        assert not missing, f"{file.name} lacks {missing}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the library, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder)]
    environment = {**os.environ, "NEURALRACE_PAGE": "0"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    if built.returncode and "No matching distribution" in built.stdout + built.stderr:
        pytest.skip("what builds a wheel cannot be downloaded here")
    assert built.returncode == 0, built.stdout + built.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        yield archive


def test_the_wheel_has_the_notices(wheel):
    licences = {Path(name).name: name for name in wheel.namelist() if "/licenses/" in name}
    assert set(licences) == {"LICENSE", "THIRD_PARTY.md"}
    assert wheel.read(licences["THIRD_PARTY.md"]).decode() == (ROOT / "THIRD_PARTY.md").read_text()


def test_pictures_and_links_of_the_readme_lead_somewhere_on_pypi(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
    page = metadata.get_payload(decode=True).decode()
    source = (ROOT / "README.md").read_text()
    address = urls().address()
    assert metadata["Author"] == "neuralrace developers"
    assert f"Source, {address}" in metadata.get_all("Project-URL")
    links = re.findall(r"(!?)\[[^\[\]]*\]\(([^)]*)\)", page)
    assert len(links) == len(re.findall(r"!?\[[^\[\]]*\]\([^)]*\)", source)) > 8
    for picture, link in links:
        if link.startswith(address):
            form, _, path = link.removeprefix(f"{address}/").partition("/main/")
            assert form == ("raw" if picture else "blob")
            assert (ROOT / path.split("#")[0]).exists(), link
        else:
            assert link.startswith(("https://", "#")), link
    assert "<img" not in source, "a picture in HTML would keep its relative address on PyPI"


def test_a_skipped_test_of_the_page_fails_where_a_browser_is_required(tmp_path):
    given = ["-q", "-p", "no:cacheprovider", "tests/lab/test_browser.py", "--no-header", "-x"]
    environment = {**os.environ, "PATH": str(tmp_path), "CHROMIUM": "", "NEURALRACE_REQUIRE_BROWSER": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *given], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "NEURALRACE_REQUIRE_BROWSER=1 forbids that" in done.stdout
