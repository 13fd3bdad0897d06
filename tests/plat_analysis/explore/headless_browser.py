"""A headless Chromium, driven over a pipe by its DevTools protocol, so that no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]


class Browser:
    """One page. `requests` has the address of everything that it asked for, `errors` the errors of its scripts."""

    def __init__(self, folder: Path) -> None:
        to_browser, from_browser = os.pipe(), os.pipe()
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        redirected = f'exec "$@" 3<&{to_browser[0]} 4>&{from_browser[1]}'
        self.process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", *command],
            pass_fds=(to_browser[0], from_browser[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser[0])
        os.close(from_browser[1])
        self.out, self.into = to_browser[1], from_browser[0]
        self.number, self.rest, self.session = 0, b"", ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        os.close(self.out)
        os.close(self.into)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; note what the page asks for and complains about meanwhile."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.into], [], [], 120)
            assert ready, "the browser does not answer"
            part = os.read(self.into, 1 << 20)
            assert part, "the browser ended"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        event: dict[str, Any] = json.loads(text)
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str([one.get("value", one.get("description")) for one in params["args"]]))
        return event

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page; awaits a promise."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Return the value of an expression once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.js(expression)):
            assert time.monotonic() < end, f"never true: {expression}; {self.errors}"
            time.sleep(0.05)
        return value

    def open(self, page: Path, width: int = 1440, height: int = 900, scheme: str = "light") -> None:
        """Open a file in a window of this size (pixels) and wait until its plots are drawn."""
        self.look(width, height, scheme)
        self.call("Page.navigate", url=page.as_uri())
        self.until("document.documentElement?.dataset.drawn >= 1 && document.readyState === 'complete'")
        self.settle()

    def look(self, width: int, height: int, scheme: str) -> None:
        """Change the size of the window (pixels), and whether it prefers `light` or `dark`."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))")

    def key(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key, e.g. `key("Tab", 9)`."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed | {"text": ""})

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window."""
        for shift in (3, 0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
        self.settle()

    def picture(self, path: Path, whole: bool = True) -> None:
        """Write the page as a PNG: all of it, or the part in the window."""
        got = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(got["data"]))
