"""The documentation site: its required contents, and every page in a real browser, without access to other hosts."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from conftest import ROOT, program, skip_loudly
from sojourn import _core, columns, plan
from sojourn.figures import Drawing

DESKTOP, PHONE = (1280, 900), (390, 844)
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
"""Options of Chromium: without a screen, as root in a container, and without addresses of other hosts."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it; broken links fail the build."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, ROOT / "tools/website.py", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def pages(site: Path) -> list[str]:
    """Returns the address of every page of the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def text_of(site: Path, page: str) -> str:
    """Returns the text of a page, without tags."""
    article = re.search(r"<article.*</article>", (site / page).read_text(encoding="utf-8"), re.S)
    assert article is not None, page
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", article[0]))


def test_every_document_discipline_and_measure_has_its_page(site: Path) -> None:
    there = set(pages(site))
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert name in there or name == "README.html"
    for report in ("agree", "replay", "mutants", "speed", "kernel-link", "tcp"):
        assert f"experiments/{report}/README.html" in there
        assert f'href="{report}/README.html"' in (site / "experiments/index.html").read_text(encoding="utf-8")
    plain = {
        field.name for field in columns.HOP if field.name not in ("nic", "stats")
    }  # counters are explained in a how-to
    for name in plain | {f"nic.{field.name}" for field in columns.NIC}:
        said = text_of(site, f"reference/measures/hops/{name}.html")
        assert all(part in said for part in ("definition", "unit", "Example", f"hops.NAME.{name}")), name
    for field in columns.FLOW:
        assert (f"reference/measures/flows/{field.name}.html" in there) == (
            field.name not in ("name", "kind", "cc", "command")
        )


def test_a_measures_example_is_what_the_command_prints(site: Path, tmp_path: Path) -> None:
    said = text_of(site, "reference/measures/hops/sojourn_ms.html")
    shown = re.findall(r"sojourn (run [a-z0-9.-]+ -f json)", said)
    command = [Path(sys.executable).parent / "sojourn", *shown[0].split(), "--seeds", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    runs = json.loads(done.stdout)["runs"]
    for run in runs:
        row = re.search(rf"{re.escape(run['set']['hop.bottleneck.qdisc'])} +bottleneck +([\d.]+)", said)
        assert row is not None
        assert float(row[1]) == pytest.approx(run["hops"]["bottleneck"]["sojourn_ms"]["mean"], rel=0.01)


def test_no_claim_is_hidden_and_every_verdict_is_that_of_the_file(site: Path) -> None:
    papers = program("tools/website_papers.py").papers()
    assert len(papers) >= 4
    for paper in papers:
        page = (site / f"papers/{paper.folder.name}.html").read_text(encoding="utf-8")
        for claim in paper.says:
            part = re.search(rf"<h3>{re.escape(claim)}<a.*?(?=<h3>|</article>)", page, re.S)
            assert part is not None, f"{paper.folder.name}: {claim}"
            shown = re.findall(r'<span class="verdict [^"]+">([^<]+)</span>', part[0])
            files = [paper.folder / f"verdicts.{world}.json" for world in ("sim", "kernel", "live")]
            sim, kernel, live = (verdict(path, claim) for path in files)
            assert shown == [sim, kernel, *([live] if live != "not judged yet" else [])], claim
        said = re.sub(r"<[^>]*>", "", page)
        for drawing in paper.drawings:
            assert f"sojourn figures {paper.number}/{drawing.name}" in said


def verdict(path: Path, claim: str) -> str:
    """Returns the verdict in a world's file."""
    known = json.loads(path.read_text())["claims"] if path.exists() else []
    return next((one["verdict"] for one in known if one["id"] == claim), "not judged yet")


def test_a_papers_page_says_what_was_measured_and_where_nothing_was_judged(tmp_path: Path) -> None:
    papers, tree = program("tools/website_papers.py"), program("tools/website_tree.py")
    quantity = {"mean": 29.0, "half_width": 1.0, "count": 10, "least": 27.0, "greatest": 31.0}
    rule = {"label": "delay, ms", "range": [3, None], "rule": "mean", "inside": False}
    judged = {
        "id": "X1",
        "kind": "expected",
        "verdict": "differs",
        "quantities": {"delay": {**quantity, **rule}},
        "cause": "one packet lasts 12 ms",
        "ablation": "a faster link",
    }
    drawing = Drawing("figure-1", "A queue", "figure 1", ("X1",), (), lambda runs, figure: None)
    folder = tmp_path / "009-a-paper"
    readme = "# A paper\n\nWhat it is.\n\n## All claims\n\n<!-- verdicts: written by tools/claims_page.py -->\n\n"
    readme += "| the old table |\n\n<!-- end of verdicts -->\n"
    paper = papers.Paper(folder, readme, {"X1": "few", "X2": "many"}, {"sim": {"X1": judged}, "kernel": {}}, (drawing,))
    text = papers.page(paper, tree.Tree(tmp_path))
    assert "the old table" not in text
    of = dict(re.findall(r"### (X\d)\n(.*?)(?=\(claim-|\Z)", text, re.S))
    assert ">differs<" in of["X1"]
    assert of["X1"].count(">not judged yet<") == 1
    assert "delay, ms: 29.0 ± 1.0 [at least 3] **outside**" in of["X1"]
    assert "Cause: one packet lasts 12 ms" in of["X1"]
    assert "Ablation: a faster link" in of["X1"]
    assert of["X2"].count(">not judged yet<") == 2
    for said in ("*Not drawn yet.*", "In the paper: figure 1.", "sojourn figures 009/figure-1", "sojourn claims X1"):
        assert said in text


def test_what_is_typed_has_straight_quotes(site: Path) -> None:
    assert {page for page in pages(site) if "[“" in text_of(site, page) or "“]" in text_of(site, page)} == set()
    assert '["10s", "end"]' in text_of(site, "reference/scenario.html").replace("&quot;", '"')
    for page in pages(site):
        code = re.findall(r"<(?:pre|code)[^>]*>.*?</(?:pre|code)>", (site / page).read_text(encoding="utf-8"), re.S)
        assert not [one for one in code if re.search("[“”‘’]", one)], page


def test_a_scenario_in_a_document_is_coloured_as_toml(site: Path) -> None:
    for page in ("explanation/impairments.html", "scenarios/rrul.html", "reference/disciplines/codel.html"):
        blocks = re.findall(r'<div class="highlight-toml.*?</pre>', (site / page).read_text(encoding="utf-8"), re.S)
        assert blocks, page
        assert all('<span class="' in block for block in blocks), page


def test_each_scenario_has_a_picture_and_the_line_to_run(site: Path) -> None:
    index = text_of(site, "scenarios/index.html")
    for name, path in plan.bundled().items():
        page = site / f"scenarios/{name}.html"
        assert f"sojourn run {name} " in index + " "
        said = text_of(site, f"scenarios/{name}.html")
        assert f"sojourn run {name} " in said
        assert f"duration = {json.dumps(tomllib.loads(path.read_text(encoding='utf-8'))['duration'])}" in said.replace(
            "&quot;", '"'
        )
        assert f"_images/{name}" in page.read_text(encoding="utf-8")


def test_each_discipline_says_when_to_use_it_what_to_set_and_shows_what_it_does(site: Path) -> None:
    guidance = program("tools/guidance.py")
    told, found = guidance.advice(), guidance.measured()
    known = {one["name"] for one in _core.catalogue("disciplines")}
    assert set(told["disciplines"]) == known
    for name, one in told["disciplines"].items():
        page = f"reference/disciplines/{name}.html"
        said = text_of(site, page)
        for words in ("When to use it", *(told["links"][link]["title"] for link in guidance.LINKS)):
            assert words in said, (name, words)
        assert all((link, one[link][0]) in found for link in guidance.LINKS), f"{name}: python tools/guidance.py"
        if "picture" in one:
            assert f"_images/{name}" in (site / page).read_text(encoding="utf-8"), name


def test_the_advice_is_measured_with_todays_simulator(tmp_path: Path) -> None:
    guidance = program("tools/guidance.py")
    told, found = guidance.advice(), guidance.measured()
    for link in ("slow", "long"):
        lines = [told["disciplines"][name][link][0] for name in ("pfifo", "codel", "fq_codel", "cake", "pie")]
        for row in guidance.play(tmp_path, link, lines):
            numbers = dict(zip(guidance.HEADS[2:], map(float, row[2:]), strict=True))
            assert numbers == pytest.approx(found[link, row[1]], rel=0.1, abs=0.1), "python tools/guidance.py"


def test_a_papers_page_begins_with_its_answer_and_has_the_method_behind_it(site: Path) -> None:
    for paper in program("tools/website_papers.py").papers():
        said = text_of(site, f"papers/{paper.folder.name}.html")
        head, _, rest = said.partition("Figures ")
        assert "?" in head, "the question that it answers"
        assert not re.search(r"sojourn claims|\b(?=\w*\d)[0-9a-f]{7}\b", head), head
        assert "Method: how to do it again" in rest


def test_the_modules_page_is_in_the_navigation(site: Path) -> None:
    assert 'href="kernel.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert "sch_ccaq" in text_of(site, "kernel.html")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")  # raised by Sphinx
def test_a_link_that_leads_nowhere_ends_the_build(
    site: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    website = program("tools/website.py")
    shutil.copytree(site / "_static", tmp_path / "_static")
    for link, code in (("index.md", 0), ("absent.md", 1)):
        (tmp_path / "index.md").write_text(f"# A page\n\n[a link]({link})\n")
        assert website.make(tmp_path, tmp_path / "out") == code
    assert "absent.md" in capfd.readouterr().err


# ---- in a browser ----


@dataclass(frozen=True)
class Seen:
    """The state of a page in the browser."""

    links: list[str]
    ids: set[str]
    broken_images: list[str]
    too_wide: dict[int, list[str]]
    """By the width of the window: elements that stick out of it."""
    wrong_hints: dict[int, list[str]]
    """By the width of the window: boxes that scroll sideways without a hint, or have a hint and do not scroll."""
    small_on_a_phone: list[str]
    """Pictures whose text is shown on a phone at less than half of its size in the file."""


LOOK = """
const scrolls = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(p).overflowX)) return true; return false; };
const parts = document.querySelectorAll("article :is(img, table, pre, p, h1, h2, h3)");
const wide = [...parts].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(e))
    .map(e => e.outerHTML.slice(0, 120));
if (document.documentElement.scrollWidth > innerWidth) wide.push("the page");
return wide;
"""
HINTS = """
const narrow = innerWidth <= 720;
return [...document.querySelectorAll(".wide, .table-wrapper, .highlight > pre")].filter(box => {
    const hint = box.previousElementSibling;
    const said = hint && hint.matches(".hint") && getComputedStyle(hint).display != "none";
    return said != (narrow && box.scrollWidth > box.clientWidth);
}).map(box => box.outerHTML.slice(0, 120));
"""
SMALL = """
return [...document.querySelectorAll("article img")]
    .filter(i => getComputedStyle(i).display != "none" && i.clientWidth < i.naturalWidth / 2).map(i => i.src);
"""
READ = """
return {
    links: [...document.querySelectorAll("a[href]")].map(a => a.href),
    ids: [...document.querySelectorAll("[id]")].map(e => e.id),
    images: [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.src),
};
"""


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """Serves the site on a port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Debian's Chromium, which can resolve no other host."""
    chromium = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        # docs/decisions/0004: installed automatically in CI only.
        skip_loudly("no chromium and chromedriver here: the site was not opened in a browser", also_in_ci=True)
    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    profile = tmp_path_factory.mktemp("profile")
    for argument in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ["SE_OFFLINE"] = "true"  # prevents downloads by Selenium's manager
    started = webdriver.Chrome(options=options, service=Service(str(driver)))
    yield started
    started.quit()


def resize(browser: webdriver.Chrome, size: tuple[int, int]) -> None:
    """Sets the size of the window; narrow ones emulate a phone."""
    wanted = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wanted)


@pytest.fixture(scope="module")
def seen(browser: webdriver.Chrome, server: str, site: Path) -> dict[str, Seen]:
    """Opens every page once, and inspects it at both widths."""
    found = {}
    for page in pages(site):
        resize(browser, DESKTOP)
        browser.get(f"{server}/{page}")
        read = browser.execute_script(READ)
        wide, hints = {}, {}
        for size in (DESKTOP, PHONE):
            resize(browser, size)
            browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
            wide[size[0]], hints[size[0]] = browser.execute_script(LOOK), browser.execute_script(HINTS)
        small = browser.execute_script(SMALL)
        found[page] = Seen(read["links"], set(read["ids"]), read["images"], wide, hints, small)
    return found


def test_every_page_opens_without_an_error_and_asks_no_other_host(
    browser: webdriver.Chrome, server: str, seen: dict[str, Seen]
) -> None:
    assert len(seen) > 80
    errors = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not errors, errors[:5]
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert len(asked) > len(seen)
    assert {url for url in asked if url.startswith(("http", "ws")) and not url.startswith(server)} == set()


def test_every_link_and_picture_is_there(server: str, site: Path, seen: dict[str, Seen]) -> None:
    assert {page: one.broken_images for page, one in seen.items() if one.broken_images} == {}
    lost = set()
    for page, one in seen.items():
        for link in one.links:
            if not link.startswith(server):
                continue
            address, anchor = urldefrag(link)
            target = unquote(urlsplit(address).path).lstrip("/") or "index.html"
            if not (site / target).is_file() or (anchor and unquote(anchor) not in seen[target].ids):
                lost.add(f"{page}: {link.removeprefix(server)}")
    assert lost == set()


@pytest.mark.parametrize("width", [DESKTOP[0], PHONE[0]])
def test_nothing_sticks_out_of_the_window(seen: dict[str, Seen], width: int) -> None:
    assert {page: one.too_wide[width] for page, one in seen.items() if one.too_wide[width]} == {}


@pytest.mark.parametrize("width", [DESKTOP[0], PHONE[0]])
def test_on_a_phone_what_scrolls_sideways_says_so_and_nothing_else_does(seen: dict[str, Seen], width: int) -> None:
    assert {page: one.wrong_hints[width] for page, one in seen.items() if one.wrong_hints[width]} == {}


def test_the_words_in_pictures_are_large_enough_to_read_on_a_phone(seen: dict[str, Seen]) -> None:
    assert {page: one.small_on_a_phone for page, one in seen.items() if one.small_on_a_phone} == {}


def results(browser: webdriver.Chrome, address: str) -> dict[str, str]:
    """Returns the results of a search: address by title."""
    browser.get(address)
    until = time.monotonic() + 30
    while time.monotonic() < until and "matching" not in browser.find_element(By.ID, "search-results").text:
        time.sleep(0.1)
    links = browser.find_elements(By.CSS_SELECTOR, "#search-results ul.search > li > a")
    return {link.text: str(link.get_attribute("href")) for link in links}


@pytest.mark.parametrize("way", ["served", "file"])
def test_the_search_finds_a_discipline_and_a_claim(
    browser: webdriver.Chrome, server: str, site: Path, way: str
) -> None:
    base = server if way == "served" else site.as_uri()
    resize(browser, DESKTOP)
    found = results(browser, f"{base}/search.html?q=fq_codel")
    assert any(link.startswith(f"{base}/reference/disciplines/fq_codel.html") for link in found.values()), found
    found = results(browser, f"{base}/search.html?q=N12")
    assert any(link.startswith(f"{base}/papers/001-codel.html") for link in found.values()), found


def test_a_button_copies_what_a_block_of_code_says(browser: webdriver.Chrome, server: str) -> None:
    resize(browser, DESKTOP)
    allowed = {"origin": server, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.execute_cdp_cmd("Browser.grantPermissions", allowed)
    browser.get(f"{server}/install.html")
    blocks = browser.find_elements(By.CSS_SELECTOR, "div.highlight")
    until = time.monotonic() + 30
    while time.monotonic() < until and len(browser.find_elements(By.CSS_SELECTOR, "button.copybtn")) < len(blocks):
        time.sleep(0.1)
    assert all(len(block.find_elements(By.CSS_SELECTOR, "button.copybtn")) == 1 for block in blocks)
    block = next(one for one in blocks if "sojourn new" in one.text)
    block.find_element(By.CSS_SELECTOR, "button.copybtn").click()
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0]);")
    assert copied.splitlines()[0] == "sojourn new home-line --down 20mbit --up 2mbit --rtt 30ms --buffer 800ms"


def test_commands_are_wrapped_on_a_phone(browser: webdriver.Chrome, server: str) -> None:
    resize(browser, PHONE)
    for page in ("install.html", "tutorial.html", "papers/001-codel.html"):
        browser.get(f"{server}/{page}")
        wide = browser.execute_script(
            "return [...document.querySelectorAll('.highlight-shell pre')]"
            ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent);"
        )
        assert wide == [], page


def test_it_is_dark_where_the_reader_wants_it_and_can_be_switched(browser: webdriver.Chrome, server: str) -> None:
    resize(browser, DESKTOP)
    brightness = {}
    for scheme in ("light", "dark"):
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        browser.get(f"{server}/index.html")
        for of in ("color", "background-color"):
            colour = browser.find_element(By.TAG_NAME, "body").value_of_css_property(of)
            brightness[scheme, of] = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
    assert brightness["light", "background-color"] > 200 > 100 > brightness["light", "color"]
    assert brightness["dark", "background-color"] < 60 < 150 < brightness["dark", "color"]
    before = browser.find_element(By.TAG_NAME, "body").get_attribute("data-theme")
    browser.find_element(By.CSS_SELECTOR, ".content-icon-container .theme-toggle").click()
    assert browser.find_element(By.TAG_NAME, "body").get_attribute("data-theme") != before
