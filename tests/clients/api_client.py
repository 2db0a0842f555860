"""A client of `stator serve` in Python's standard library, independent of the server's code, for end-to-end tests.
Usage: api_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import concurrent.futures
import http.client
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time

CONFIG = "configs/demo.cfg"


class Wrong(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Wrong(what)


PATIENCE = 650  # seconds; more than the server takes (serve_api.sh), whatever else the machine does
ENOUGH = 20  # right answers in the chaos


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The JSON of a stream's events; it must end with [DONE]."""
        text = self.body.decode()
        check(text.endswith("data: [DONE]\n\n"), "the stream ends with %r" % text[-80:])
        out = []
        for event in text.split("\n\n")[:-2]:
            if event.startswith(":"):
                continue
            check(event.startswith("data: ") and "\n" not in event, "an event is %r" % event)
            out.append(json.loads(event[6:]))
        return out


class Server:
    def __init__(self, port, pid, stator):
        self.port, self.pid, self.stator = int(port), int(pid), stator

    def ask(self, path, body=None, method=None, timeout=PATIENCE):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method or ("GET" if body is None else "POST"), path, body,
                               {"Content-Type": "application/json"} if body is not None else {})
            r = connection.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            connection.close()

    def post(self, path, **fields):
        r = self.ask(path, fields)
        check(r.status == 200, "%s %s: %d %s" % (path, fields, r.status, r.body[:300]))
        return r

    def idle(self):
        """Waits until no request is in the engine."""
        end = time.time() + PATIENCE
        while time.time() < end:
            if not self.ask("/slots").json()["requests"]:
                return
            time.sleep(0.02)
        raise Wrong("requests are left: %s" % self.ask("/slots").body)

    def figures(self):
        """The lines of /metrics."""
        lines = [line.rsplit(" ", 1) for line in self.ask("/metrics").body.decode().splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, value in lines}

    def grown(self):
        """Bytes of private memory outside the plan since the engine was sealed (what of the plan was first touched does not count)."""
        return self.ask("/report").json()["audit"]["end"]["grown_since_seal_bytes"]

    def run(self, prompt, n, temperature, seed):
        """What `stator run` says."""
        out = subprocess.run([self.stator, "run", CONFIG, "--json", "-p", prompt, "-n", str(n), "--temp", str(temperature),
                              "--seed", str(seed), "--ignore-eos"], capture_output=True, check=True)
        return json.loads(out.stdout)


def text_of(events):
    return "".join(e["choices"][0]["text"] for e in events if e["choices"])


PROMPTS = ["Once upon a time, there was a little fox named Pip.", "The robot", "Mia and Sam went to the forest. They",
           "One day"]


def test_completions(s):
    for i, prompt in enumerate(PROMPTS):
        for temperature in (0, 0.8, 1.3):
            want = s.run(prompt, 40, temperature, 100 + i)
            fields = dict(prompt=prompt, max_tokens=40, temperature=temperature, seed=100 + i, ignore_eos=True)
            got = s.post("/v1/completions", **fields).json()
            check(got["choices"][0]["text"] == want["text"], "%r is not %r" % (got["choices"][0]["text"], want["text"]))
            check(got["choices"][0]["finish_reason"] == "length", "ended by %s" % got["choices"][0]["finish_reason"])
            usage = got["usage"]
            check(usage["prompt_tokens"] == len(want["prompt_ids"]) and usage["completion_tokens"] == 40, str(usage))
            check(set(got["timings"]) == {"cache_n", "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms",
                                          "predicted_per_second"}, "timings")
            check(got["timings"]["cache_n"] + got["timings"]["prompt_n"] == len(want["prompt_ids"]), str(got["timings"]))
            events = s.post("/v1/completions", stream=True, stream_options={"include_usage": True}, **fields).events()
            check(text_of(events) == want["text"], "streamed: %r is not %r" % (text_of(events), want["text"]))
            check(events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 40, str(events[-1]))
            check(all(e["usage"] is None for e in events[:-1]), "usage in the middle")
            check(events[-2]["choices"][0]["finish_reason"] == "length", str(events[-2]))
            ids = s.post("/v1/completions", **{**fields, "prompt": want["prompt_ids"]}).json()
            check(ids["choices"][0]["text"] == want["text"], "the prompt as ids gives another text")


def test_seeds(s):
    want = [s.run(PROMPTS[0], 20, 1, 7 + i)["text"] for i in range(3)]
    got = s.post("/v1/completions", prompt=PROMPTS[0], max_tokens=20, temperature=1, seed=7, n=3, ignore_eos=True).json()
    check([c["text"] for c in got["choices"]] == want, "n: %s" % got)
    check([c["index"] for c in got["choices"]] == [0, 1, 2], "indices")
    texts = ["", "", ""]
    for e in s.post("/v1/completions", prompt=PROMPTS[0], max_tokens=20, temperature=1, seed=7, n=3, ignore_eos=True,
                    stream=True).events():
        texts[e["choices"][0]["index"]] += e["choices"][0]["text"]
    check(texts == want, "n, streamed: %s" % texts)
    # Prompts are answered in order; echo puts them in front.
    got = s.post("/v1/completions", prompt=PROMPTS[:3], max_tokens=10, temperature=0, echo=True, ignore_eos=True).json()
    for i in range(3):
        check(got["choices"][i]["text"] == PROMPTS[i] + s.run(PROMPTS[i], 10, 0, 1)["text"], "echo: %s" % got["choices"][i])


def test_stop(s):
    whole = s.run(PROMPTS[0], 40, 0, 1)["text"]
    for at in range(0, len(whole) - 6, 5):
        for stop in (whole[at:at + 1], whole[at:at + 6]):
            fields = dict(prompt=PROMPTS[0], max_tokens=40, temperature=0, stop=["never there", stop], ignore_eos=True)
            got = s.post("/v1/completions", **fields).json()["choices"][0]
            check(got["text"] == whole[:whole.index(stop)] and got["finish_reason"] == "stop", "stop %r: %r" % (stop, got))
            events = s.post("/v1/completions", stream=True, **fields).events()
            check(text_of(events) == got["text"], "stop %r, streamed: %r" % (stop, text_of(events)))


def test_errors(s):
    cases = [
        ("/v1/completions", b"{", 400, None), ("/v1/completions", b"", 400, None),
        ("/v1/completions", {"prompt": "x", "mirostat": 2}, 400, "mirostat"),
        ("/v1/completions", {"prompt": "x", "temperature": "hot"}, 400, "temperature"),
        ("/v1/completions", {"prompt": "x", "response_format": {"type": "grammar"}}, 400, "response_format"),
        ("/v1/completions", {"prompt": "word " * 3000}, 400, None),
        ("/v1/completions", {"prompt": "x", "n": 128}, 400, "n"),
        ("/v1/completions", b'{"prompt": "x", "seed": 1, "seed": 2}', 400, None),
        ("/v1/completions", b"[" * 2000, 400, None),
        ("/v1/embeddings", {"input": "x"}, 501, None),
    ]
    for path, body, status, param in cases:
        r = s.ask(path, body)
        check(r.status == status, "%s: %d %s" % (str(body)[:80], r.status, r.body))
        error = r.json()["error"]
        check(error["message"] and error["param"] == param, "%s: %s" % (str(body)[:80], error))


def test_texts(s):
    for prompt in PROMPTS + ["caf\u00e9 \u4e2d \U0001f600 <|endoftext|>"]:
        ids = s.post("/tokenize", content=prompt).json()["tokens"]
        check(s.post("/detokenize", tokens=ids).json()["content"] == prompt, "%r does not come back" % prompt)
    pieces = s.post("/tokenize", content="The robot", with_pieces=True).json()["tokens"]
    check("".join(p["piece"] for p in pieces) == "The robot", str(pieces))


def test_logprobs(s):
    want = s.run(PROMPTS[0], 12, 0, 1)
    got = s.post("/v1/completions", prompt=PROMPTS[0], max_tokens=12, temperature=0, logprobs=4, ignore_eos=True).json()
    l = got["choices"][0]["logprobs"]
    check("".join(l["tokens"]) == want["text"] and len(l["token_logprobs"]) == 12, str(l))
    for i in range(12):
        top = l["top_logprobs"][i]
        check(max(top.values()) == l["token_logprobs"][i] and len(top) == 4, "greedy is not the likeliest: %s" % top)
        check(l["text_offset"][i] == len("".join(l["tokens"][:i])), "offsets")


def test_chats(s, template):
    """The server has a template of shared/templates; its cases are rendered as their file says."""
    with open(template[:-6] + ".json") as f:
        cases = json.load(f)
    done = 0
    for case in cases:
        fields = {k: v for k, v in case["input"].items() if k not in ("bos_token", "eos_token")}
        if set(fields) - {"messages", "tools", "add_generation_prompt", "enable_thinking"}:
            continue
        r = s.ask("/apply-template", fields)
        if "error" in case:
            check(r.status == 400, "%s: %d" % (case["case"], r.status))
        else:
            check(r.status == 200 and r.json()["prompt"] == case["expected"],
                  "%s: %d %s, not %r" % (case["case"], r.status, r.body, case["expected"]))
        done += 1
    check(done >= 4, "only %d cases" % done)
    messages = [{"role": "user", "content": "Once upon a time"}]
    prompt = s.post("/apply-template", messages=messages).json()["prompt"]
    ids = s.post("/tokenize", content=prompt).json()["tokens"]
    want = s.post("/v1/completions", prompt=ids, max_tokens=24, temperature=0.7, seed=3, ignore_eos=True).json()
    want = want["choices"][0]["text"]
    fields = dict(messages=messages, max_tokens=24, temperature=0.7, seed=3, ignore_eos=True)
    message = s.post("/v1/chat/completions", **fields).json()["choices"][0]["message"]
    thinks = prompt.rstrip().endswith("<think>")
    check(message["role"] == "assistant" and message["content"] == ("" if thinks else want), str(message))
    check(not thinks or message["reasoning_content"].strip() == want.strip(), str(message))
    events = s.post("/v1/chat/completions", stream=True, **fields).events()
    check(events[0]["choices"][0]["delta"]["role"] == "assistant", "no role")
    for name in ("content", "reasoning_content"):
        got = "".join(e["choices"][0]["delta"].get(name) or "" for e in events)
        check(got == (message.get(name) or ""), "%s, streamed: %r" % (name, got))
    check(events[-1]["choices"][0]["finish_reason"] == "length", str(events[-1]))


def test_disconnects(s):
    """A request whose client goes away is cancelled, streamed or not."""
    for stream in (True, False):
        body = json.dumps(dict(prompt=PROMPTS[0], max_tokens=900, stream=stream, ignore_eos=True, temperature=0)).encode()
        cancelled = s.figures()["stator_requests_cancelled_total"]
        for _ in range(50):  # on a busy machine one may be complete before anybody looks, or leaves
            c = socket.create_connection(("127.0.0.1", s.port))
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            while not s.ask("/slots").json()["requests"] and not select.select([c], [], [], 0)[0]:
                pass
            c.close()
            s.idle()
            if s.figures()["stator_requests_cancelled_total"] > cancelled:
                break
        else:
            raise Wrong("none was cancelled")


class Chaos:
    """64 clients that behave, read slowly, vanish, send garbage."""

    def __init__(self, s):
        self.s, self.end = s, 0
        self.lock = threading.Lock()
        self.counts = {}
        cases = [(p, n, t, seed) for p in PROMPTS for n, t, seed in ((5, 0, 1), (40, 0.9, 2), (90, 1.2, 3))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.cases = list(zip(cases, pool.map(lambda c: s.run(*c)["text"], cases)))

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def body(self, case, stream):
        (prompt, n, t, seed), _ = case
        return json.dumps(dict(prompt=prompt, max_tokens=n, temperature=t, seed=seed, stream=stream, ignore_eos=True))

    def raw(self, case, stream, window=None):
        c = socket.socket()
        if window:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        c.settimeout(PATIENCE)
        c.connect(("127.0.0.1", self.s.port))
        body = self.body(case, stream).encode()
        c.sendall(b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return c

    def good(self, r):
        stream = r.random() < 0.5
        case = r.choice(self.cases)
        reply = self.s.ask("/v1/completions", self.body(case, stream))
        if reply.status in (429, 503):
            check(reply.headers.get("Retry-After"), "no Retry-After with %d" % reply.status)
            self.count("%d" % reply.status)
            time.sleep(r.random() * 0.3)
            return
        check(reply.status == 200, "an error that was not earned: %d %s" % (reply.status, reply.body[:300]))
        text = text_of(reply.events()) if stream else reply.json()["choices"][0]["text"]
        check(text == case[1], "%s: %r is not %r" % (case[0], text, case[1]))
        self.count("right")

    def slow(self, r):
        case = r.choice(self.cases)
        c = self.raw(case, True, 2048)
        data = b""
        while True:
            part = c.recv(r.randrange(1, 400))
            if not part:
                break
            data += part
            time.sleep(r.random() * 0.004)
        c.close()
        head, _, body = data.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status != 200:
            check(status in (429, 503), "a slow reader got %d" % status)
            self.count("%d" % status)
            return
        check(text_of(Reply(200, {}, body).events()) == case[1], "a slow reader got another text")
        self.count("slow")

    def vanish(self, r):
        c = self.raw(r.choice(self.cases), r.random() < 0.7)
        if r.random() < 0.5:
            c.recv(r.randrange(1, 2000))
        time.sleep(r.random() * 0.05)
        if r.random() < 0.5:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        self.count("vanished")

    def garbage(self, r):
        kind = r.randrange(4)
        if kind == 0:
            data = bytes(r.randrange(256) for _ in range(r.randrange(1, 600)))
        elif kind == 1:
            data = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"prompt\": "
        elif kind == 2:
            body = bytearray(self.body(r.choice(self.cases), True).encode())
            for _ in range(4):
                body[r.randrange(len(body))] = r.randrange(32, 127)
            reply = self.s.ask("/v1/completions", bytes(body))
            check(reply.status in (200, 400, 404, 429, 503), "garbage got %d" % reply.status)
            self.count("garbage")
            return
        else:
            reply = self.s.ask(r.choice(["/v1/completions", "/nothing", "/v1/chat/completions", "/tokenize"]),
                               r.choice([b"[]", b"{}", b"\xff", b'{"prompt": {}}', b"null"]))
            check(400 <= reply.status < 500 or reply.status == 503, "garbage got %d" % reply.status)
            self.count("garbage")
            return
        c = socket.create_connection(("127.0.0.1", self.s.port), timeout=60)
        c.sendall(data)
        time.sleep(r.random() * 0.1)
        c.close()
        self.count("garbage")

    def client(self, number):
        r = random.Random(number)
        # A slow machine has longer for as many right answers as are wanted.
        while time.time() < self.end or (self.counts.get("right", 0) <= ENOUGH and time.time() < self.end + PATIENCE):
            act = r.choices((self.good, self.slow, self.vanish, self.garbage), (6, 1, 2, 2))[0]
            try:
                act(r)
            except (ConnectionError, http.client.RemoteDisconnected, http.client.BadStatusLine, BrokenPipeError):
                # Cut or refused while the server has as many connections as it may.
                check(act != self.good, "a connection of one who behaves was cut")


def test_chaos(s, seconds, growth):
    chaos = Chaos(s)
    for case in chaos.cases:  # every path once, so that what is measured then is growth
        s.ask("/v1/completions", chaos.body(case, True))
    before = s.grown()
    chaos.end = time.time() + float(seconds)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for f in [pool.submit(chaos.client, i) for i in range(64)]:
            f.result()
    s.idle()
    after = s.grown()
    figures = s.figures()
    edge = {k: v for k, v in figures.items() if "edge" in k}
    print("chaos: %s; grown outside the plan %d -> %d bytes; %s" % (chaos.counts, before, after, edge))
    check(chaos.counts.get("right", 0) > ENOUGH, "hardly any answer: %s" % chaos.counts)
    check(growth == "any" or after == 0, "memory outside the plan has grown: %d bytes before, %d after" % (before, after))
    check(figures["stator_edge_pool_failures_total"] == 0, "the edge pool was exhausted")
    check(s.ask("/health").status == 200, "it is no longer healthy")


def main():
    name, port, pid, stator = sys.argv[1:5]
    try:
        globals()["test_" + name](Server(port, pid, stator), *sys.argv[5:])
    except Wrong as e:
        print("%s: %s" % (name, e))
        sys.exit(1)


if __name__ == "__main__":
    main()
