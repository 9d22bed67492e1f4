"""Chromium without a screen, driven through chromedriver's HTTP protocol (W3C WebDriver)."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PATIENCE_SECONDS = 30


def programs() -> tuple[str, str] | None:
    """Paths of a browser and of its driver; None where one of them is not installed."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    folders = os.pathsep.join(filter(None, (os.environ.get("CHROMEWEBDRIVER"), os.environ.get("PATH"))))
    driver = shutil.which("chromedriver", path=folders)
    return (browser, driver) if browser and driver else None


class Browser:
    """One window."""

    def __init__(self, driver: str, session: str) -> None:
        self._session = f"{driver}/session/{session}"

    def open(self, url: str) -> None:
        """Load a page, and wait until it is loaded."""
        _ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns, whose arguments are `arguments`."""
        return _ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, *arguments: Any) -> Any:
        """What a script returns as soon as that is true. TimeoutError where it never is."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := self.run(script, *arguments)):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {PATIENCE_SECONDS} s: {script}")
            time.sleep(0.05)
        return found

    def write(self, selector: str, text: str) -> None:
        """Type a text into the field that a CSS selector finds."""
        found = _ask("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        [element] = found.values()
        _ask("POST", f"{self._session}/element/{element}/value", {"text": text})

    def click(self, selector: str) -> None:
        """Click on what a CSS selector finds."""
        found = _ask("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        [element] = found.values()
        _ask("POST", f"{self._session}/element/{element}/click", {})

    def devtools(self, command: str, **parameters: Any) -> None:
        """A command of Chromium's developer tools, such as the size of a screen."""
        _ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self) -> list[str]:
        """Warnings and errors that pages logged since this was asked last."""
        entries = _ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]


@contextlib.contextmanager
def started(browser: str, driver: str, profile: Path) -> Iterator[Browser]:
    """A window with a profile of its own, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(f"{address}/status")
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = _ask("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        try:
            yield Browser(address, made["sessionId"])
        finally:
            _ask("DELETE", f"{address}/session/{made['sessionId']}")
    finally:
        process.terminate()
        process.wait()


def _wait(status: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if _ask("GET", status)["ready"]:
                return
        if time.monotonic() > end:
            raise TimeoutError("chromedriver does not answer")
        time.sleep(0.1)


def _ask(method: str, url: str, body: Any = None) -> Any:
    """The value that the driver answers. AssertionError with its words where it refuses."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE_SECONDS * 2) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from None
