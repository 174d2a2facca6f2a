"""The report: self-contained, with its pictures, and rebuilt from records; and its statistics."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.webdriver import WebDriver as Driver
from selenium.webdriver.support.ui import WebDriverWait

from conftest import SMALL, SOJOURN, Run, compare, skip_loudly
from sojourn import cases, pictures, plot, rows, table
from sojourn.means import mean_of

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results."""
    place = tmp_path_factory.mktemp("written")
    (place / "small.toml").write_text(SMALL)
    subprocess.run([SOJOURN, "run", "small.toml", "--seeds", "2", "--out", "out"], cwd=place, check=True)
    return place / "out"


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it, which the test may modify."""
    return Path(shutil.copytree(written, tmp_path / "out"))


PICTURES = ("summary", "sojourn-bottleneck", "distribution", "throughput-bottleneck", "fairness")


def test_the_page_has_the_answer_the_first_picture_the_tables_and_needs_nothing_else(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    images = re.findall(r'(?:src|srcset)="data:image/png;base64,([^"]+)"', page)
    assert len(images) == 2 * len(PICTURES), "each picture, and its version for narrow screens before it"
    for image in images:
        data = base64.b64decode(image)
        assert data.startswith(PNG)
        assert len(data) > 10_000
    assert not re.findall(r'(?:src|srcset|href)="(?!data:)', page), "no external address"
    assert "http" not in page
    order = [
        'class="answer"',
        'id="summary"',
        'id="numbers"',
        'id="commands"',
        *(f'id="{name}"' for name in PICTURES[1:]),
    ]
    places = [page.index(one) for one in [*order, 'id="method"', 'id="scenario"']]
    assert places == sorted(places)
    for text in (
        "A small link",
        "pfifo limit 100",
        "count = 2",
        "Seeds 1, 2",
        "±",
        "through the discipline that it names",
    ):
        assert text in page
    assert (folder / "report.png").read_bytes() == base64.b64decode(images[1])


def test_each_discipline_that_was_compared_has_its_command_with_a_copy_button(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    commands = re.findall(r'<code>([^<]+)</code><button type="button" data-copy>', page)
    assert commands == [
        "tc qdisc del dev eth0 root",
        "tc qdisc replace dev eth0 root pfifo limit 100",
        "tc qdisc replace dev eth0 root codel limit 1000",
    ]


def test_each_picture_lies_beside_the_page_with_its_numbers(folder: Path) -> None:
    there = {path.name for path in (folder / "pictures").iterdir()}
    assert there == {f"{name}.{form}" for name in PICTURES for form in ("png", "csv")}
    for name in PICTURES:
        lines = (folder / f"pictures/{name}.csv").read_text().splitlines()
        assert len(lines) > 2
        assert lines[0].startswith("discipline,")
    assert (folder / "pictures/summary.png").read_bytes() == (folder / "report.png").read_bytes()


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_pictures_are_written_in_the_format_asked_for_and_json_goes_to_stdout_all_the_same(
    sojourn: Run, folder: Path, tmp_path: Path, form: str
) -> None:
    said = sojourn("report", folder, "--out", "again", "--format", form, "-f", "json")
    assert len(json.loads(said.stdout)["runs"]) == 4
    there = {path.name for path in (tmp_path / "again/pictures").iterdir()}
    assert there == {f"{name}.{end}" for name in PICTURES for end in (form, "csv")}
    start = {"svg": b"<?xml", "pdf": b"%PDF"}[form]
    assert all((tmp_path / f"again/pictures/{name}.{form}").read_bytes().startswith(start) for name in PICTURES)
    page = (tmp_path / "again/report.html").read_bytes()
    assert page == (folder / "report.html").read_bytes(), "the page is the same"


def test_two_formats_of_one_kind_are_refused(sojourn: Run, folder: Path) -> None:
    said = sojourn("report", folder, "--format", "svg", "--format", "pdf", code=2).stderr
    assert "--format = svg, pdf: expected one of png, svg, pdf" in said


def test_the_report_is_rebuilt_from_the_records_alone_to_the_same_bytes(sojourn: Run, folder: Path) -> None:
    names = ("report.html", "report.png", *(f"pictures/{name}.{form}" for name in PICTURES for form in ("png", "csv")))
    before = {name: (folder / name).read_bytes() for name in names}
    for name in before:
        (folder / name).unlink()
    sojourn("report", folder)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_one_run_can_be_reported_alone(sojourn: Run, folder: Path, tmp_path: Path) -> None:
    sojourn("report", folder / "runs/0002.parquet", "--out", "alone")
    page = (tmp_path / "alone/report.html").read_text()
    assert "seed 1" in page
    assert "a single seed carries no interval" in page


def browser() -> Driver:
    """Debian's chromium, driven by its own chromedriver."""
    chromium = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        # docs/decisions/0004: installed automatically in CI only.
        skip_loudly("no chromium and chromedriver here: the report was not opened in a browser", also_in_ci=True)
    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """A browser for the tests of this file."""
    started = browser()
    yield started
    started.quit()


def opened(driver: Driver, page: Path, width: int) -> None:
    """Opens the page on a screen of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.as_uri())


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_screen_and_its_pictures_are_drawn(driver: Driver, folder: Path, width: int) -> None:
    opened(driver, folder / "report.html", width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    drawn = driver.execute_script("return [...document.images].map(one => one.naturalWidth)")
    assert len(drawn) == len(PICTURES)
    assert min(drawn) > 500
    assert set(drawn) == {1650 if width > 720 else 660}, "a phone has the narrow figures"
    assert driver.execute_script("return document.querySelector('.answer').getBoundingClientRect().top") < 300


def test_a_phone_says_which_tables_scroll_sideways_and_a_desktop_says_nothing(driver: Driver, folder: Path) -> None:
    script = """return [...document.querySelectorAll(".wide")].map(box => [
        box.scrollWidth > box.clientWidth, getComputedStyle(box.previousElementSibling).display != "none"])"""
    opened(driver, folder / "report.html", 390)
    boxes = driver.execute_script(script)
    assert [True, True] in boxes
    assert all(scrolls == hinted for scrolls, hinted in boxes)
    opened(driver, folder / "report.html", 1280)
    assert driver.execute_script(script) == [[False, False]] * len(boxes)


def test_the_scenario_is_wrapped_on_a_phone(driver: Driver, folder: Path) -> None:
    opened(driver, folder / "report.html", 390)
    assert driver.execute_script(
        "return [...document.querySelectorAll('pre')].every(e => e.scrollWidth <= e.clientWidth)"
    )


def test_the_page_breaks_no_word_as_a_terminal_does(folder: Path) -> None:
    heads = re.findall(r"<(?:dt|th)>(.*?)</(?:dt|th)>", (folder / "report.html").read_text())
    assert any("retransmits" in head for head in heads)
    assert not [head for head in heads if re.search(r"\w-(?: |<br>)", head)]


def test_the_copy_button_says_that_it_did(driver: Driver, folder: Path) -> None:
    opened(driver, folder / "report.html", 1280)
    button = driver.find_element("css selector", "[data-copy]")
    button.click()
    WebDriverWait(driver, 5).until(lambda _driver: button.text in ("Copied", "Selected"))


def test_no_interval_from_one_value_and_students_t_from_more() -> None:
    one = mean_of([3.0])
    assert one is not None
    assert one.half_width is None
    several = mean_of([1.0, 2.0, 3.0, 4.0, None])
    assert several is not None
    assert several.value == 2.5
    assert several.half_width == pytest.approx(3.182446 * 1.2909944 / 2, rel=1e-5)  # t(0.975; 3) · s / √4
    assert mean_of([None, None]) is None


def test_numbers_are_written_without_exponents() -> None:
    assert [table.number(value, 3) for value in (0, 0.01234, 1.0, 99.96, 1234567)] == [
        "0",
        "0.0123",
        "1",
        "100",
        "1 230 000",
    ]


def test_a_discipline_has_its_colour_everywhere_and_shades_where_several_share_it() -> None:
    assert len(set(plot.COLOURS.values())) == len(plot.COLOURS)
    assert plot.kind_of("fq_codel limit 100") == "fq_codel"


def test_skips_are_errors_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    import conftest

    monkeypatch.setattr(conftest, "CI", True)
    with pytest.raises(pytest.fail.Exception):
        skip_loudly("nothing")
    with pytest.raises(pytest.skip.Exception, match="!!! SKIPPED: a browser"):
        skip_loudly("a browser", also_in_ci=True)


def test_counts_averaged_over_seeds_are_not_written_to_six_digits() -> None:
    drops = next(column for column in table.QUEUE if column.head == "drops")
    assert table.cell(mean_of([8.0, 8.0, 9.0]), drops)[0] == "8.33"
    assert table.cell(mean_of([5750.0]), drops)[0] == "5 750"


def test_words_in_a_light_shade_are_dark_enough_to_read() -> None:
    light = plot.shade(plot.COLOURS["pfifo"], 1.0)
    assert plot.ink(light) != light
    assert plot.ink(plot.COLOURS["codel"]) == plot.COLOURS["codel"], "a discipline's own colour stays"


TWO_RATES = """\
title = "Two hops"
duration = "3s"
hop = [{ name = "router", rate = "10mbit", delay = "5ms", qdisc = "codel" }, { name = "modem", rate = "2mbit" }]
flow = [{ kind = "bulk" }]
[sweep]
"hop.router.rate" = ["10mbit", "1900kbit"]
"""


def test_a_picture_of_one_of_several_queues_claims_no_goodput_of_all_flows_for_it(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO_RATES)
    groups = cases.case_list(compare(tmp_path / "two.toml", folder=tmp_path).runs)
    made = {one.name: one for one in pictures.pictures(groups, "router")}
    words = [one.text for one in made["throughput-router"].figure.texts]
    assert "link busy" in words
    assert "goodput" not in words
    assert any("at router" in word for word in words)
    assert "rate changes" not in made["sojourn-router"].caption, "each row's rate is constant"


def test_where_the_links_rate_differs_by_row_each_row_says_its_own(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO_RATES)
    groups = cases.case_list(compare(tmp_path / "two.toml").runs)
    assert [pictures._own_rate(one, "router") for one in groups] == ["link 10 Mbit/s", "link 1.9 Mbit/s"]
    said = [
        pictures._row_block(row, rows.rows_of(groups, "router"), "router", []) for row in rows.rows_of(groups, "router")
    ]
    assert [" ".join(line.text for line in block).count("link ") for block in said] == [1, 1]
    modem = rows.rows_of(groups, "modem")
    assert not any("link " in line.text for row in modem for line in pictures._row_block(row, modem, "modem", []))
