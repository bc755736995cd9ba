"""`python -m flows.dashboard` in a real browser: the runs and the comparison of a sweep."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.tracking import connect
from tests.conftest import free_port, serving
from tests.tracking_parts import config_of, flow, settings, write_data

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRIVER = shutil.which("chromedriver")


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = flow("dashboard", f"port={port}", *settings(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: Port {port} is in use. Give another: port={port + 1}\n"


def test_a_server_needs_no_dashboard() -> None:
    done = flow("dashboard", "tracking.uri=http://host:5000")
    assert done.returncode == 1
    assert done.stderr == (
        "error: http://host:5000 is a server and has its own page: open it in a browser.\n"
    )


@pytest.mark.parametrize("uri", ["foo://x", "sqlite:////proc/x.db"])
def test_a_tracker_that_is_none_is_one_line(uri: str) -> None:
    done = flow("dashboard", f"tracking.uri={uri}", f"port={free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert uri in line


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium with chromedriver (Debian: chromium, chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        *("window-size=1700,1000", f"user-data-dir={tmp_path_factory.mktemp('chromium')}"),
    ):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real sweep over two axes."""
    folder = tmp_path_factory.mktemp("dashboard")
    write_data(folder / "data")
    axes = ["retriever=tfidf,bm25s", "chunker=document,sentence"]
    keep = [a for a in settings(folder) if not a.startswith("retriever=")]
    done = flow("experiment", "-m", *keep, *axes, f"out={folder}/out.json")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def page(place: Path) -> Iterator[str]:
    port = free_port()
    with serving(["flows.dashboard", f"port={port}", *settings(place)], port) as uri:
        yield uri


def wait_for(browser: Any, words: list[str], seconds: float = 60) -> str:
    """The text of the page as soon as it holds all words."""
    end = time.monotonic() + seconds
    while True:
        text = str(browser.execute_script("return document.body.innerText"))
        missing = [word for word in words if word not in text]
        if not missing:
            return text
        assert time.monotonic() < end, f"no {missing} on {browser.current_url}:\n{text}"
        time.sleep(0.5)


def click(browser: Any, selector: str, words: str) -> None:
    """Click the first such element whose text begins with `words`, or whose name holds them."""
    found = """return [...document.querySelectorAll(arguments[0])].find(
        e => e.textContent.startsWith(arguments[1])
            || e.dataset.componentId?.includes(arguments[1]))"""
    element = browser.execute_script(found, selector, words)
    assert element, f"no {words} to click"
    browser.execute_script("arguments[0].click()", element)


@pytest.fixture
def shoot(browser: Any) -> Callable[[str], None]:
    """Save what the browser shows, when CLAIMFLOW_SCREENSHOTS names a folder."""

    def save(name: str) -> None:
        if folder := os.environ.get("CLAIMFLOW_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            time.sleep(2)  # charts move into place
            browser.save_screenshot(f"{folder}/{name}.png")

    return save


@pytest.mark.slow
@pytest.mark.browser
def test_runs_and_comparison(
    place: Path, page: str, browser: Any, shoot: Callable[[str], None]
) -> None:
    from selenium import webdriver
    from selenium.webdriver.common.keys import Keys

    client, experiment = connect(config_of(place))
    runs = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    points = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    (parent,) = [run for run in runs if run not in points]
    out = json.loads((place / "out.json").read_text())
    assert [run.info.run_id for run in points] == [run["mlflow_run_id"] for run in out]

    browser.get(f"{page}/#/experiments/{experiment}/runs?workflowType=machine_learning")
    wait_for(browser, ["scifact dev", "Expand rows"])
    browser.execute_script("localStorage['mlflow.assistant.panelOpen_v1'] = 'false'")
    browser.refresh()
    wait_for(browser, ["scifact dev", "Expand rows"])
    click(browser, "button", "runnamecellrenderer")  # the plus beside the sweep
    wait_for(browser, ["bm25s", "tfidf"])
    click(browser, "button", "Show more columns")
    wait_for(browser, ["Parameters", "axis.retriever"])
    for column in ("ndcg_at_10", "axis.retriever", "axis.chunker"):
        click(browser, "[class*=tree-title]", column)
        time.sleep(0.5)
    webdriver.ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    time.sleep(1)
    assert "Search columns" not in browser.page_source
    headers, cells = (
        browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())",
            f"[role={role}]",
        )
        for role in ("columnheader", "gridcell")
    )
    assert {"ndcg_at_10", "axis.retriever", "axis.chunker"} <= set(headers)
    assert {"bm25s", "tfidf", "document", "sentence"} <= set(cells)
    for point in out:
        value = str(point["measures"]["ndcg_at_10"]["value"])
        assert [cell for cell in cells if cell and value.startswith(cell)]
    shoot("runs")

    browser.get(f"{page}/#/experiments/{experiment}/runs/{parent.info.run_id}")
    wait_for(browser, ["sweep of retriever x chunker on scifact", "best.ndcg_at_10"])
    shoot("sweep")

    browser.get(f"{page}/#/experiments/{experiment}/runs/{points[0].info.run_id}")
    wait_for(browser, ["scifact dev", "ndcg_at_10_low", "axis.chunker", "Parent run"])
    shoot("run")

    ids = json.dumps([run.info.run_id for run in points], separators=(",", ":"))
    query = f"runs={ids}&experiments={json.dumps([experiment])}"
    browser.get(f"{page}/#/compare-runs?{query}")
    text = wait_for(browser, ["Comparing 4 Runs", "axis.retriever", "axis.chunker", "ndcg_at_10"])
    shoot("compare")
    for run, point in zip(points, out, strict=True):
        for axis in ("retriever", "chunker"):
            assert run.data.params[f"axis.{axis}"] == point["axes"][axis]
            assert point["axes"][axis] in text
        assert f"{point['measures']['ndcg_at_10']['value']:.3f}".rstrip("0") in text
