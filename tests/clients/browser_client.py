"""Drives the web page of `stator serve` in a headless Chromium through its debugging protocol, over a pipe, with Python's standard
library. Usage: browser_client.py PORT TEST [ARGUMENT...]; exit 1 and a line that says what is wrong.
With STATOR_SHOTS=FOLDER test "chat" also leaves pictures there."""
import re
import base64
import http.client
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

WAIT = 180  # seconds, for anything


class Wrong(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Wrong(what)


class Browser:
    """One Chromium with one page. All that the page logs and asks is kept."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        to_read, self.to = os.pipe()
        self.out, to_write = os.pipe()
        arguments = ["chromium", "--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
                     "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        # The protocol's pipe is descriptors 3 and 4 of the browser.
        self.process = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, to_write), "sh"] + arguments,
                                        pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(self.folder + "/stderr", "wb"), start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session = b"", 0, None
        self.asked, self.logged, self.statuses = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(domain + ".enable")
        self.size(1360, 860)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (Wrong, OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)  # its own session
            self.process.wait()
        os.close(self.to)
        os.close(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, end):
        while b"\0" not in self.rest:
            check(select.select([self.out], [], [], max(end - time.time(), 0))[0], "the browser says nothing for %d s" % WAIT)
            got = os.read(self.out, 1 << 16)
            check(got, "the browser has ended: " + open(self.folder + "/stderr", errors="replace").read()[-500:])
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.asked.append(p["request"]["url"])
        elif method == "Network.responseReceived":
            self.statuses.append((p["response"]["url"], p["response"]["status"]))
        elif method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.logged.append("exception: " + d.get("exception", {}).get("description", d["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.logged.append("console: " + json.dumps(p["args"])[:300])
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.logged.append("%s: %s %s" % (p["entry"]["source"], p["entry"]["text"], p["entry"].get("url", "")))

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.time() + WAIT
        while True:
            got = self.receive(end)
            if got.get("id") == self.number:
                check("error" not in got, "%s: %s" % (method, got.get("error")))
                return got["result"]
            self.note(got)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in r, "%s: %s" % (text, r.get("exceptionDetails")))
        return r["result"].get("value")

    def until(self, text, what=None):
        end = time.time() + WAIT
        while True:
            value = self.js(text)
            if value:
                return value
            check(time.time() < end, "not within %d s: %s" % (WAIT, what or text))
            time.sleep(0.03)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href.startsWith('http')")

    def reload(self):
        self.js("window.old = true")
        self.call("Page.reload")
        self.until("window.old === undefined && document.readyState === 'complete'")

    def key(self, name, code, text=None):
        p = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **p, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **p)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        r = self.until("""(() => { const e = document.querySelector(%s); if (!e) return null; e.scrollIntoView({block: "nearest"});
            const r = e.getBoundingClientRect(); return r.width > 0 ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()""" % json.dumps(selector),
                       "no %s to click" % selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=r[0], y=r[1], button="left", clickCount=1)

    def fill(self, selector, text):
        """As a user: focus, all selected, typed over."""
        self.js("document.querySelector(%s).focus(); document.querySelector(%s).select()" % (json.dumps(selector), json.dumps(selector)))
        if text:
            self.type(text)
        else:
            self.key("Delete", 46)

    def shot(self, name):
        folder = os.environ.get("STATOR_SHOTS")
        if folder:
            time.sleep(1.2)  # the map's next answer
            data = self.call("Page.captureScreenshot", format="png")["data"]
            with open(os.path.join(folder, name + ".png"), "wb") as f:
                f.write(base64.b64decode(data))


class Page(Browser):
    def __init__(self, port):
        super().__init__()
        self.port, self.origin = port, "http://127.0.0.1:%d" % port

    def ask(self, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            c.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers or {})
            r = c.getresponse()
            return r.status, json.loads(r.read())
        finally:
            c.close()

    def start(self):
        self.open(self.origin + "/")
        self.until("document.getElementById('model').textContent", "the model's name")
        self.until("document.getElementById('health').dataset.state === 'ok'", "health")

    def messages(self):
        """[[role, text, error, note]], as shown."""
        return self.js("""[...document.querySelectorAll("#log > li")].map((li) => [li.classList.contains("user") ? "user" : "assistant",
            li.querySelector(".body")?.innerText ?? "", li.querySelector(".fault")?.innerText ?? "", li.querySelector(".note")?.innerText ?? ""])""")

    def done(self):
        self.until("document.getElementById('stop').hidden && document.querySelectorAll('#log > li').length > 0", "the answer's end")
        return self.messages()

    def say(self, text):
        self.js("document.getElementById('prompt').focus()")
        self.type(text)
        self.key("Enter", 13, "\r")
        self.until("[...document.querySelectorAll('#log .user')].some((e) => e.innerText.includes(%s))" % json.dumps(text[:40]), "the message")

    def set(self, **fields):
        """Sampling, through the dialog of the settings."""
        self.click("#open-settings")
        for name, value in fields.items():
            self.fill("#system" if name == "system" else "[data-field=%s]" % name, str(value))
        self.key("Escape", 27)
        wanted = {name: str(value) for name, value in fields.items() if name != "system"}
        self.until("(() => { const s = JSON.parse(localStorage['stator.settings']).sampling; return Object.entries(%s).every(([k, v]) => s[k] === v); })()"
                   % json.dumps(wanted), "settings are taken")

    def fair(self, *expected):
        """Nothing was logged but these failed answers (status, end of the path), and nobody else was asked."""
        for line in self.logged:
            ok = any(("status of %d" % status) in line and line.rstrip().endswith(path) for status, path in expected)
            check(ok, "the page has logged " + line)
        for address in self.asked:
            check(address.startswith(self.origin + "/") or address.startswith(("blob:" + self.origin, "data:image/")) or address == "about:blank",
                  "the page has asked " + address)


def chat(p):
    """Send, regenerate, edit, stop, errors, reload."""
    p.start()
    check(p.js("document.activeElement.id") == "prompt", "the focus is not on the message field")
    p.set(seed=7, temperature=0.8, max_tokens=40)
    question = "Tell me a story about a fox. It lived in a den under the roots of an old tree, and every day it went out to look for its friend, the bear."
    p.say(question)
    got = p.done()
    fields = {"seed": 7, "temperature": 0.8, "max_tokens": 40}
    messages = [{"role": "user", "content": question}]
    status, whole = p.ask("/v1/chat/completions", dict(fields, messages=messages))
    check(status == 200, whole)
    text = whole["choices"][0]["message"]["content"]
    words = lambda t: " ".join(re.findall(r"[^\W\d_]+", t)) # markup is shown as what it means
    check([m[0] for m in got] == ["user", "assistant"], "messages: %s" % got)
    check(words(got[1][1]) == words(text), "the page shows %r, the server says %r" % (got[1][1], text))
    check("as many tokens as it may have" in got[1][3], "no word of the limit: %s" % got[1])
    stats = p.js("document.querySelector('#log .stats').innerText")
    check("40 tokens" in stats and "tokens/s" in stats and "first token after" in stats, "figures: " + stats)
    check(words(p.js("document.getElementById('say').textContent")).startswith(words(text)[:20]), "a screen reader is not told the answer")

    # What was cut goes on, as the server goes on with a last message of the assistant.
    p.click(".continue")
    p.until("document.getElementById('stop').hidden")
    more = p.done()
    status, rest = p.ask("/v1/chat/completions", dict(fields, messages=messages + [{"role": "assistant", "content": text}]))
    check(status == 200, rest)
    check(len(more) == 2 and words(more[1][1]) == words(text + rest["choices"][0]["message"]["content"]), "the rest: %s, the server says %s" % (more, rest))

    p.click(".regenerate")
    p.until("document.getElementById('stop').hidden")
    again = p.done()
    check(again == got, "with the same seed the answer anew is %s" % again)
    check("cached" in p.js("document.querySelector('#log .stats').innerText"), "the prompt's blocks are not said to be cached")

    p.click(".edit")
    p.fill(".editing textarea", "Tell me of a bear.")
    p.key("Enter", 13, "\r")
    p.until("document.querySelector('#log .user').innerText.includes('bear')")
    edited = p.done()
    check(len(edited) == 2 and edited[0][1] == "Tell me of a bear." and edited[1][1] != got[1][1], "edited: %s" % edited)

    # Stop: as soon as there is something of an answer that would be long. (It may end by itself before that.)
    p.set(max_tokens="", temperature=1.2, seed="")
    for _ in range(8):
        p.js("""new MutationObserver((all, o) => { if ((document.querySelector("#log li:nth-child(4) .body")?.innerText ?? "").length > 3) {
            document.getElementById("stop").click(); o.disconnect(); } }).observe(document.getElementById("log"), {childList: true, subtree: true})""")
        if len(p.messages()) == 2:
            p.say("Now a long one, please.")
        else:
            p.click(".regenerate")
        p.until("document.querySelectorAll('#log > li').length === 4")
        stopped = p.done()
        if stopped[3][3] == "Stopped.":
            break
    check(len(stopped) == 4 and stopped[3][3] == "Stopped." and stopped[3][1], "stopped: %s" % stopped)
    end = time.time() + WAIT
    while p.ask("/slots")[1]["requests"]:
        check(time.time() < end, "the server goes on with what was stopped")
        time.sleep(0.05)

    # An error, as the server words it.
    p.set(temperature=1000)
    p.say("And another.")
    failed = p.done()
    shown = [{"role": m[0], "content": m[1]} for m in failed[:5]]
    status, why = p.ask("/v1/chat/completions", {"messages": shown, "temperature": 1000})
    check(status == 400 and failed[5][2] == why["error"]["message"] and "temperature" in failed[5][2],
          "the page shows %s, the server says %s" % (failed[5], why))
    p.shot("light-error")

    p.set(max_tokens=60, temperature=0.8, system="You tell stories to children.")
    p.click(".regenerate")
    p.until("document.getElementById('stop').hidden && !document.querySelector('#log .fault')")
    before = p.done()
    check(len(before) == 6 and before[5][1] and not before[5][2], "after the error: %s" % before)
    check("You tell stories" in p.js("JSON.stringify(localStorage)"), "the system prompt is not kept")
    p.shot("light-chat")
    p.reload()
    p.until("document.querySelectorAll('#log > li').length === 6")
    check(p.messages() == before, "after a reload: %s" % p.messages())
    check(p.js("document.querySelector('#list .current .open').innerText").startswith("Tell me a story"), "the title is lost")
    title = p.js("document.querySelector('#list .current .open').textContent")
    check(title[-1:] == "\u2026" and question.startswith(title[:-1] + " "), "the title ends within a word: " + title)

    # Another tab saves a conversation of its own in the middle of an answer: both are kept.
    p.js("""new MutationObserver((all, o) => { if ((document.querySelector("#log li:nth-child(8) .body")?.innerText ?? "").length > 3) {
        o.disconnect(); localStorage.setItem("stator.conversation.other", JSON.stringify({id: "other", title: "Of the other tab", system: "", changed: 1, messages: []}));
        dispatchEvent(new StorageEvent("storage", {key: "stator.conversation.other"})); } }).observe(document.getElementById("log"), {childList: true, subtree: true})""")
    p.say("And then?")
    p.until("document.querySelectorAll('#log > li').length === 8")
    told = p.done()
    kept = p.js("JSON.parse(localStorage['stator.conversation.' + document.querySelector('#list .current').dataset.id]).messages[7].content")
    check(words(kept) == words(told[7][1]) and told[7][1], "kept: %r, shown: %r" % (kept, told[7][1]))
    check("Of the other tab" in p.js("document.getElementById('list').innerText"), "the other tab's conversation is not listed")

    # A number that JavaScript can't hold is not sent as another.
    p.set(seed="18446744073709551615")
    p.click(".regenerate")
    p.until("document.querySelector('#log .fault')?.innerText.includes('too large for a browser')")
    p.set(seed=7)

    # A page that goes away in the middle keeps what has come.
    p.set(max_tokens="")
    p.say("A very long one.")
    p.until("(document.querySelectorAll('#log > li')[9]?.querySelector('.body').innerText.length ?? 0) > 0") # the demo may have little to say
    p.reload()
    p.until("document.querySelectorAll('#log > li').length === 10")
    check(len(p.messages()[9][1]) > 0, "what had come is lost: %s" % p.messages()[9])
    p.fair((400, "/v1/chat/completions"))


NASTY = """# Title
<img src=x onerror="alert(1)"> <script>alert(2)</script> & **bold** and *italic*, `a < b`, [name](https://example.org/x) [bad](javascript:alert(3))

1. one
2. two
   - inner **item**

| a | b |
|---|---|
| 1 | `2` |

> quoted

```html
<b onclick="x()">code</b>
```

```python
def f(x): # not "a string"
    return "<i>\\"#" + 12 if x else None
```
"""


def texts(p):
    """Texts of models are shown as what they are; conversations are renamed, deleted, bounded; what is damaged does no harm."""
    p.start()
    p.js("""localStorage.setItem("stator.conversation.one", JSON.stringify({id: "one", title: "<b>First</b>", system: "", changed: Date.now(),
        messages: [{role: "user", content: "<i>hello</i>"}, {role: "assistant", content: %s, reasoning: "<u>thought</u>"}]}));
        localStorage.setItem("stator.conversation.two", "{damaged");
        localStorage.setItem("stator.conversation.three", JSON.stringify({id: "four", title: 5}));
        localStorage.setItem("stator.settings", "[1")""" % json.dumps(NASTY))
    p.reload()
    p.until("document.querySelectorAll('#log > li').length === 2")
    count = lambda selector: p.js("document.querySelectorAll('#log %s').length" % selector)
    check(count("img") == 0 and count("script") == 0 and count("b") == 0 and count("i") == 0 and count("u") == 0, "markup of a model's text is alive")
    for selector in ("h4", ".code pre code", "strong", "em", "blockquote", "table td code", "ol > li > ul > li > strong", "details.reasoning"):
        check(count(selector) >= 1, "no %s" % selector)
    check(p.js("document.querySelector('#log .code code').textContent") == '<b onclick="x()">code</b>', "code")
    coloured = p.js("[...document.querySelectorAll('#log .code code span')].map((e) => e.className.slice(5) + ' ' + e.textContent)")
    check(coloured == ["word def", 'comment # not "a string"', "word return", 'string "<i>\\"#"', "number 12", "word if", "word else", "word None"], "colours: %s" % coloured)
    check(p.js("document.querySelectorAll('#log .code code')[1].textContent") == NASTY.split("```python\n")[1].split("\n```")[0], "coloured code has another text")
    check(p.js("[...document.querySelectorAll('#log a')].map((a) => a.href + ' ' + a.rel)") == ["https://example.org/x noopener noreferrer nofollow"], "links")
    check(p.js("document.querySelector('#log details').open") is False, "the reasoning is not folded")
    check(p.js("document.querySelector('#list .open').textContent") == "<b>First</b>", "the title")
    p.shot("light-texts")

    p.click("#list .current button[aria-label^=Rename]")
    p.fill("#ask-value", "Renamed")
    p.key("Enter", 13, "\r")
    p.until("document.querySelector('#list .current .open').textContent === 'Renamed'", "the new name")
    p.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=p.folder)
    p.click("#list .current button[aria-label^=Export]")
    end = time.time() + WAIT
    exported = None
    while exported is None:
        check(time.time() < end, "no file comes of the export")
        time.sleep(0.05)
        try:
            exported = json.load(open(p.folder + "/Renamed.json"))
        except (OSError, ValueError):
            pass # it is not there, or not all of it
    check(exported["messages"][0]["content"] == "<i>hello</i>", "what is exported")
    p.click("#new")
    check(p.js("document.querySelectorAll('#log > li').length") == 0, "a new conversation has messages")
    p.click("#list li:not(.current) button.open")
    p.click("#list .current button[aria-label^=Delete]")
    p.click("#ask-yes")
    p.until("localStorage.getItem('stator.conversation.one') === null", "what was deleted is gone")

    p.js("""for (let i = 0; i < 130; i++) localStorage.setItem("stator.conversation.x" + i,
        JSON.stringify({id: "x" + i, title: "old " + i, system: "", changed: i, messages: [{role: "user", content: "a"}]}))""")
    p.reload()
    p.set(max_tokens=5)
    p.click("#new")
    p.say("Once")
    p.done()
    kept = p.js("Object.keys(localStorage).filter((k) => k.startsWith('stator.conversation.')).length")
    check(kept <= 102, "%d conversations are kept" % kept)
    check("oldest conversations were removed" in p.js("document.getElementById('notice').textContent"), "nobody is told that some were removed")
    p.fair()


def shown_map(p):
    return p.js("""[...document.querySelectorAll("#caches [data-blocks]")].map((e) => [e.dataset.blocks, Number(e.dataset.count), e.innerText])""")


def begin(p):
    """A long request is under way."""
    c = socket.create_connection(("127.0.0.1", p.port), timeout=WAIT)
    body = json.dumps({"prompt": "Once upon a time " * 20, "max_tokens": 800, "ignore_eos": True, "stream": True})
    c.sendall(("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    check(c.recv(1), "no answer begins")
    return c


def memory(p):
    """The map shows what /memory and /slots say; with a request under way, and after it."""
    p.start()
    p.until("!document.getElementById('map-body').hidden", "the map")
    status, m = p.ask("/memory")
    check(status == 200, m)
    arenas = p.js("[...document.querySelectorAll('#places [data-arena]')].map((e) => [e.closest('[data-place]').dataset.place, e.dataset.arena, Number(e.dataset.bytes)])")
    check(arenas == [[a["place"], a["arena"], a["planned"]] for a in m["arenas"]], "arenas: %s" % arenas)
    # To scale: equal bytes, equal pixels, up to a pixel and the gaps.
    widths = p.js("[...document.querySelectorAll('#places .bar')].map((b) => [b.clientWidth, [...b.children].map((e) => e.getBoundingClientRect().width)])")
    places = [[a["planned"] for a in m["arenas"] if a["place"] == name] for name in dict.fromkeys(a["place"] for a in m["arenas"])]
    scale = max(sum(x) for x in places)
    for (whole, parts), planned in zip(widths, places):
        for width, n in zip(parts, planned):
            check(abs(width - max(whole * n / scale, 2)) < 1.5, "an arena of %d of %d bytes is %s of %s pixels wide" % (n, scale, width, whole))
    bare = p.js("""[...document.querySelectorAll("#map .swatch")].filter((e) => { const s = getComputedStyle(e);
        return s.backgroundColor === "rgba(0, 0, 0, 0)" && s.backgroundImage === "none"; }).map((e) => e.parentElement.innerText)""")
    check(bare == [], "no colour: %s" % bare)

    # One map is asked for every second, and a request may be over before: several, until one is seen.
    row = None
    for _ in range(10):
        c = begin(p)
        slots = p.ask("/slots")[1]["requests"]
        while slots and slots[0]["generated_tokens"] == 0:
            slots = p.ask("/slots")[1]["requests"]
        if not slots: # it is over already
            continue
        row = p.js("""(async () => { for (let i = 0; i < 100; i++) {
            const e = [...document.querySelectorAll("#caches [data-blocks]")].find((e) => e.innerText.includes(%s));
            if (e) return [e.dataset.blocks, Number(e.dataset.count), e.innerText];
            await new Promise((f) => setTimeout(f, 20)); } return null; })()""" % json.dumps(slots[0]["id"]))
        c.close()
        if row:
            break
    check(row, "no request in the map")
    check(row[0] == str(slots[0]["request"]) and 0 < row[1] <= slots[0]["blocks"] + slots[0]["reserved"] and "reserved" in row[2], "the map shows %s, /slots says %s" % (row, slots[0]))
    if os.environ.get("STATOR_SHOTS"):
        for scheme in ("light", "dark"):
            p.scheme(scheme)
            held = [begin(p), begin(p)]
            p.shot(scheme + "-map-held")
            for c in held:
                c.close()
        p.scheme("light")
    end = time.time() + WAIT
    while p.ask("/slots")[1]["requests"]:
        check(time.time() < end, "the request does not end")
        time.sleep(0.05)
    kv = p.ask("/slots")[1]["kv"]
    check(kv["cached"] > 0, "no block is cached: %s" % kv)
    p.until("(() => { const n = (k) => Number(document.querySelector('#caches [data-blocks=' + k + ']').dataset.count); return n('cached') === %d && n('free') === %d; })()"
            % (kv["cached"], kv["blocks"] - kv["cached"]), "the map shows %s, /slots says %s" % (shown_map(p), kv))
    status, m = p.ask("/memory")
    check(m["caches"][0]["cached"] == kv["cached"] and sum(run[0] for run in m["caches"][0]["runs"]) == kv["blocks"], "memory: %s" % m["caches"])
    # The cells: as many of each colour as blocks.
    label = p.js("document.querySelector('#caches canvas').getAttribute('aria-label')")
    check(label == "%d blocks: 0 held, %d cached, %d free" % (kv["blocks"], kv["cached"], kv["blocks"] - kv["cached"]), label)
    verdict = p.js("document.getElementById('verdict').innerText")
    check("Grown since the start: +" in verdict, "verdict: " + verdict)
    check("private memory by the kernel" in p.js("document.getElementById('audit').innerText"), "no audit")
    p.click("#close-map")
    check(p.js("getComputedStyle(document.getElementById('map')).display === 'none' && document.activeElement.id === 'open-map'"), "the map does not close")
    # Closed it asks nothing.
    n = len([a for a in p.asked if a.endswith("/memory")])
    time.sleep(2.5)
    p.js("1")
    check(len([a for a in p.asked if a.endswith("/memory")]) <= n + 1, "a map that is closed asks on")
    p.fair()


def caches(p, *places):
    """A model with more caches than the KV cache, on these devices: each cache's blocks by who holds them, while a request
    runs and after it, and a row for each arena of each device."""
    p.start()
    p.until("!document.getElementById('map-body').hidden", "the map")
    # One map is asked for every second, and a request may be over before: several, until one is seen.
    for k in range(20):
        c = socket.create_connection(("127.0.0.1", p.port), timeout=WAIT)
        body = json.dumps({"prompt": [10 + (7 * k + i) % 400 for i in range(100)], "max_tokens": 60, "ignore_eos": True, "stream": True})
        c.sendall(("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
        check(c.recv(1), "no answer begins")
        slots = p.ask("/slots")[1]["requests"]
        seen = slots and p.js("""(async () => { for (let i = 0; i < 100; i++) {
            if ([...document.querySelectorAll("#caches .cache")].every((c) => [...c.querySelectorAll("[data-blocks]")].some((e) =>
                e.innerText.includes(%s) && Number(e.dataset.count) > 0))) return true;
            await new Promise((f) => setTimeout(f, 20)); } return false; })()""" % json.dumps(slots[0]["id"]))
        answer = b""
        while b"[DONE]" not in answer:
            more = c.recv(65536)
            check(more, "the answer is cut off: %s" % answer[-200:])
            answer += more
        c.close()
        if seen:
            break
    check(seen, "no request in every cache of the map: %s" % slots)
    slots, m = p.ask("/slots")[1], p.ask("/memory")[1]
    check(len(m["caches"]) > 1 and slots["checkpoints"]["used"] > 0, "no checkpoint, or no second cache: %s" % slots)
    for cache in m["caches"]:
        check(cache["cached"] > 0 and cache["held"] == 0 and cache["free"] + cache["cached"] == cache["blocks"], "a cache: %s" % cache)
        shown = "[...document.querySelectorAll('[data-cache=%s] [data-blocks]')].map((e) => e.dataset.blocks + e.dataset.count).join()" % cache["name"]
        p.until(shown + " === 'cached%d,free%d'" % (cache["cached"], cache["free"]), "of %s the map shows %s" % (cache, p.js(shown)))
        check(("%d blocks of" % cache["blocks"]) in p.js("document.querySelector('[data-cache=%s] p').innerText" % cache["name"]), "no count of blocks")
    check(m["caches"][0]["cached"] == slots["kv"]["cached"], "/slots has another number of cached blocks: %s" % slots)
    check(sum(x["blocks"] for x in m["caches"][1:] if x["kind"] == "state") in (0, 2 + slots["checkpoints"]["all"]), "states: %s" % m["caches"])
    arenas = p.js("[...document.querySelectorAll('#places [data-arena]')].map((e) => [e.closest('[data-place]').dataset.place, e.dataset.arena, Number(e.dataset.bytes)])")
    check(arenas == [[a["place"], a["arena"], a["planned"]] for a in m["arenas"]], "arenas: %s" % arenas)
    for place in places:
        check({"weights", "kv", "scratch", "exchange"} <= {x[1] for x in arenas if x[0] == place}, "no arenas of %s: %s" % (place, arenas))
        if place.startswith("level_zero"):
            check(place in p.js("document.getElementById('audit').innerText"), "no audit of " + place)
    if os.environ.get("STATOR_SHOTS"):
        p.shot("caches-" + "-".join(places).replace(":", ""))
    p.fair()


def access(p):
    """Everything that can be used has a name, and a keyboard reaches it; narrow windows; the files are checked with their tag."""
    p.start()
    p.set(max_tokens=20)
    p.say("Once upon")
    p.done()
    for size, name in (((1360, 860), "wide"), ((390, 780), "narrow")):
        p.size(*size)
        tree = p.call("Accessibility.getFullAXTree")["nodes"]
        for node in tree:
            role = node.get("role", {}).get("value")
            if not node.get("ignored") and role in ("button", "textbox", "combobox", "spinbutton", "link", "image", "dialog", "navigation", "main", "complementary", "region"):
                check(node.get("name", {}).get("value"), "%s: a %s has no name: %s" % (name, role, node.get("properties")))
        wide = p.js("document.documentElement.scrollWidth - innerWidth")
        check(wide <= 0, "%s: the page is %d pixels too wide" % (name, wide))
    p.shot("narrow-map")
    if p.js("document.body.classList.contains('with-map')"):
        p.click("#close-map")
    p.shot("narrow-chat")
    p.click("#open-list")
    p.until("getComputedStyle(document.getElementById('side')).display !== 'none'")
    p.shot("narrow-list")
    p.key("Escape", 27)
    p.until("getComputedStyle(document.getElementById('side')).display === 'none'")
    check(p.js("document.activeElement.id") == "open-list", "the focus is lost")
    p.click("#open-settings")
    p.shot("narrow-settings")
    p.key("Escape", 27)
    p.size(1360, 860)
    p.click("#open-settings")
    p.shot("light-settings")
    p.key("Escape", 27)
    # By the Tab key from the begin of the page: the first thing is the way to the message field.
    p.js("document.activeElement.blur(); document.getElementById('open-list').parentElement.parentElement.querySelector('.skip').focus()")
    reached = set()
    for _ in range(40):
        p.key("Tab", 9)
        reached.add(p.js("document.activeElement.id || document.activeElement.className"))
    for name in ("open-map", "open-settings", "new", "open", "scroll", "prompt", "send", "regenerate", "close-map"):
        check(name in reached or (name == "close-map" and not p.js("document.body.classList.contains('with-map')")), "Tab does not reach %s: %s" % (name, reached))
    p.scheme("dark")
    p.shot("dark-chat")
    p.statuses.clear()
    p.reload()
    p.until("document.getElementById('model').textContent")
    p.fair()


def key(p, right):
    """A server with a key: the page is given, asks for the key, shows what the server says of a wrong one."""
    p.open(p.origin + "/")
    p.until("!document.getElementById('key-form').hidden", "the field for the key")
    p.until("document.getElementById('map-error').textContent.includes('when the server has the API key')", "the map's word of the key")
    p.shot("light-key")
    p.fill("#key", "wrong")
    p.key("Enter", 13, "\r")
    p.until("document.getElementById('key-error').textContent.includes('the key is wrong')", "what the server says of a wrong key")
    p.fill("#key", right)
    p.key("Enter", 13, "\r")
    p.until("document.getElementById('key-form').hidden && document.getElementById('model').textContent", "the model")
    p.set(max_tokens=10)
    p.say("Once")
    check(p.done()[1][1], "no answer")
    check(right not in p.js("JSON.stringify(localStorage)"), "the key is kept for longer than the tab")
    p.fair((401, "/props"), (401, "/memory"))


def pictures(p, path):
    """Pictures by the button, pasted and dropped: previews, tokens, the answer that the server gives, and after a reload."""
    with open(path, "rb") as f:
        data = base64.b64encode(f.read()).decode()
    p.start()
    p.until("!document.getElementById('attach').hidden", "the button")
    # A File as a user's dialog, clipboard or desktop has it.
    made = """((text, name) => { const t = new DataTransfer(); t.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name,
        {type: "image/png"})); return t; })(%s, %s)"""
    waits = "document.querySelectorAll('#pictures figure').length === %d && [...document.querySelectorAll('#pictures figcaption')].every((e) => e.innerText === '18 tokens')"
    p.js("(() => { const f = document.getElementById('files'); f.files = %s.files; f.dispatchEvent(new Event('change')); })()" % (made % (json.dumps(data), '"one.png"')))
    p.until(waits % 1, "a picture by the button")
    check(p.js("[document.querySelector('#pictures img').naturalWidth, document.querySelector('#pictures img').alt]") == [30, "one.png"], "no preview")
    p.js("document.getElementById('prompt').dispatchEvent(new ClipboardEvent('paste', {clipboardData: %s, bubbles: true, cancelable: true}))" % (made % (json.dumps(data), '"two.png"')))
    p.until(waits % 2, "a pasted picture")
    p.js("document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: %s, bubbles: true, cancelable: true}))" % (made % (json.dumps(data), '"three.png"')))
    p.until(waits % 3, "a dropped picture")
    p.shot("light-pictures")
    p.click("#pictures button")
    p.until(waits % 2, "one less")
    p.js("document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: %s, bubbles: true, cancelable: true}))" % (made % (json.dumps(data[:40]), '"cut.png"')))
    p.until("document.getElementById('notice').innerText.startsWith('cut.png: picture 0')", "what the server says of a damaged file")
    p.until(waits % 2, "the damaged file waits for no message")
    p.set(seed=3, max_tokens=4, temperature=0)
    p.say("abc")
    got = p.done()
    check(p.js("document.querySelectorAll('#log .user img').length") == 2 and p.js("document.getElementById('pictures').hidden"), "the message's pictures: %s" % got)
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}
    status, whole = p.ask("/v1/chat/completions", {"seed": 3, "max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": [part, part, {"type": "text", "text": "abc"}]}]})
    check(status == 200, whole)
    check("prompt %d tokens" % whole["usage"]["prompt_tokens"] in p.js("document.querySelector('#log .stats').innerText"), "the prompt's tokens: %s" % got)
    words = lambda t: " ".join(re.findall(r"\w+", t))
    check(words(got[1][1]) == words(whole["choices"][0]["message"]["content"]) and not got[1][2], "%s, the server says %s" % (got, whole))
    p.reload()
    p.until("document.querySelectorAll('#log .user img').length === 2", "the pictures after a reload")
    p.click(".edit")
    p.fill(".editing textarea", "b")
    p.key("Enter", 13, "\r")
    p.until("document.querySelector('#log .user').innerText.includes('b') && !document.querySelector('#log .user').innerText.includes('a')")
    check(not p.done()[1][2] and p.js("document.querySelectorAll('#log .user img').length") == 2, "edited: %s" % p.messages())
    # What is too large to be kept is said to be gone, and no answer comes without it.
    p.js("(() => { const k = Object.keys(localStorage).find((k) => k.startsWith('stator.conversation.')), c = JSON.parse(localStorage[k]);"
         " delete c.messages[0].pictures[1].url; localStorage[k] = JSON.stringify(c); })()")
    p.reload()
    p.until("document.querySelector('#log .user .gone')?.innerText.endsWith('was not kept')", "that it is gone")
    p.click(".regenerate")
    check("was too large to be kept" in p.done()[1][2], "an answer without the picture: %s" % p.messages())
    p.fair((400, "/tokenize"))


def plain(p):
    """A model without a chat template goes on with a text."""
    p.start()
    check("goes on with what you write" in p.js("document.getElementById('empty-text').innerText"), "it does not say that there is no template")
    p.set(seed=3, max_tokens=30)
    p.say("Once upon a time")
    got = p.done()
    status, whole = p.ask("/v1/completions", {"prompt": "Once upon a time", "seed": 3, "max_tokens": 30})
    check(status == 200 and " ".join(got[1][1].split()) == " ".join(whole["choices"][0]["text"].split()), "%s, %s" % (got, whole))
    p.fair()


def main():
    port, name, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    p = Page(port)
    try:
        {"chat": chat, "texts": texts, "memory": memory, "caches": caches, "access": access, "key": key, "plain": plain,
         "pictures": pictures}[name](p, *arguments)
    except Wrong as e:
        print("%s: %s; logged: %s" % (name, e, p.logged[-5:]))
        sys.exit(1)
    finally:
        p.close()


main()
