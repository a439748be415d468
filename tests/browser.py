"""Chromium without a window, driven through a pipe by its DevTools protocol."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `errors` collects what went wrong on it, `requests` every address that it asked for."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        to_browser, write_end = os.pipe()
        read_end, from_browser = os.pipe()
        self.write, self.read = write_end, read_end
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.buffer, self.number = b"", 0
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += ["--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"]
        command = [PROGRAM, *flags, f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]

        def place() -> None:  # Chromium reads from descriptor 3 and writes to 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            command,
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session: str | None = None
        self.session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    session: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # it and its helpers, a session of their own
        self.process.wait()
        os.close(self.write)
        os.close(self.read)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window, and the colours that the page is asked for."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, path: Path, anchor: str = "") -> None:
        """Open a file, and wait until it is loaded and drawn."""
        self._call("Page.navigate", {"url": path.resolve().as_uri() + (f"#{anchor}" if anchor else "")})
        self.wait("document.readyState === 'complete' && location.href.startsWith('file:')")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        given = {"expression": script, "returnByValue": True, "awaitPromise": True}
        found = self._call("Runtime.evaluate", given)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"not true after {seconds} s: {condition}"
            time.sleep(0.05)

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self._call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def _call(self, method: str, given: dict[str, Any] | None = None) -> Any:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": given or {}}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], 60)
            assert ready, "Chromium has not answered for a minute"
            got = os.read(self.read, 1 << 20)
            assert got, "Chromium ended"
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        kind, given = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(given["exceptionDetails"]))
        elif kind == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(given["args"]))
        elif kind == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
