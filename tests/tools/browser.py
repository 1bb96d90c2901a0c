"""Drives Debian's Chromium, headless, by its debugging protocol over a pipe: nothing but the browser is needed."""
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """Drives one tab. `complaints` has what the page prints on the console, and its errors."""

    def __init__(self, width=1280, height=800):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise FileNotFoundError("Chromium is missing. Install it with: sudo apt-get install -y chromium")
        self.profile = tempfile.mkdtemp(prefix="chromium")
        here, theirs = os.pipe(), os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&"$0" 4>&"$PIPE"', str(here[0]), program, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={self.profile}",
             f"--window-size={width},{height}", "about:blank"],
            pass_fds=(here[0], theirs[1]), env={**os.environ, "PIPE": str(theirs[1]), "TMPDIR": self.profile}, stderr=subprocess.DEVNULL)
        os.close(here[0])
        os.close(theirs[1])
        self.to, self.back, self.rest, self.number, self.complaints = here[1], theirs[0], b"", 0, []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, seconds=30):
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], seconds)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.back, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(message)
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(message["params"])[:600])
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def run(self, script):
        """Returns the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def drawn(self):
        """Waits until the page has drawn what it was asked to draw."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path, dark=False, seconds=30, ready="document.body?.dataset.ready === 'yes'", query=""):
        """Opens a page, one of show.py if not told when it is ready. Returns the seconds until it is complete."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        begin = time.monotonic()
        self.call("Page.navigate", url="about:blank")  # a page that differs in its fragment alone would not be opened anew
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + query)
        while not self.run(f"location.protocol === 'file:' && ({ready})") and not self.complaints:
            if time.monotonic() > begin + seconds:
                raise TimeoutError(f"{path} does not open")
            time.sleep(0.01)
        return time.monotonic() - begin

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        self.drawn()

    def mouse(self, x, y, click=True):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased")[:3 if click else 1]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1)
        self.drawn()
