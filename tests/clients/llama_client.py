"""A client of llama-server's own API in Python's standard library, for tests/e2e/serve/serve_llama.sh.
Usage: llama_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import json
import sys

from api_client import PROMPTS, Server, Wrong, check

END = {"model", "stop_type", "stopping_word", "truncated", "tokens_cached", "generation_settings", "timings"}


def events_of(r):
    """The JSON of a stream's events, of which the last one has `stop`."""
    text = r.body.decode()
    check(text.endswith("\n\n"), "the stream ends with %r" % text[-80:])
    events = [json.loads(e[6:]) for e in text.split("\n\n")[:-1] if e.startswith("data: ")]
    check([e["stop"] for e in events] == [False] * (len(events) - 1) + [True], "stop: %s" % events)
    return events


# The settings of a request, and those that the demo's config and its command line leave open.
SETTINGS = {"n_ctx": 512, "n_predict": 30, "max_tokens": 30, "ignore_eos": True, "top_k": 40, "min_p": 0.05, "dry_penalty_last_n": -1,
            "n_keep": 0}


def check_probabilities(all, ids, n):
    """completion_probabilities of these tokens, each with those of the n likeliest."""
    check([p["id"] for p in all] == ids, "ids: %s" % all)
    for p in all:
        top = p["top_logprobs"]
        check(len(top) == n and all_of(top + [p]), str(p))
        check(sorted(top, key=lambda t: -t["logprob"]) == top and top[0]["logprob"] >= p["logprob"], "order: %s" % top)


def all_of(entries):
    """Whether each token's bytes are its text (unless that is a part of a character)."""
    return all(set(e) >= {"id", "token", "bytes", "logprob"} and ("\ufffd" in e["token"] or bytes(e["bytes"]).decode() == e["token"])
               for e in entries)


def test_completion(s):
    """The bytes of `stator run`."""
    for i, prompt in enumerate(PROMPTS):
        want = s.run(prompt, 30, 0.8, 50 + i)
        fields = dict(prompt=prompt, n_predict=30, temperature=0.8, seed=50 + i, ignore_eos=True, cache_prompt=True, id_slot=-1)
        got = s.post("/completion", **fields).json()
        check(got["content"] == want["text"] and got["stop"] is True, str(got))
        n = len(want["prompt_ids"])
        check([got["stop_type"], got["tokens_evaluated"], got["tokens_predicted"], got["tokens_cached"]] == ["limit", n, 30, n + 30],
              str(got))
        events = events_of(s.post("/completion", stream=True, **fields))
        check("".join(e["content"] for e in events) == want["text"], "streamed: %s" % events)
        check(all(e["tokens_evaluated"] == n for e in events), "tokens_evaluated: %s" % events)
        check(END <= set(events[-1]) and events[-1]["tokens_predicted"] == 30, str(events[-1]))
        # Ids of tokens, which an answer has in streams, or where it is asked for them; log probabilities; settings.
        check(got["tokens"] == [] and [t for e in events for t in e["tokens"]] == want["ids"], "ids: %s" % events)
        check("completion_probabilities" not in got, "probabilities: %s" % got)
        got = s.post("/completion", return_tokens=True, n_probs=3, **fields).json()
        check(got["content"] == want["text"] and got["tokens"] == want["ids"], "ids: %s" % got)
        check_probabilities(got["completion_probabilities"], want["ids"], 3)
        events = events_of(s.post("/completion", stream=True, n_probs=2, **fields))
        check_probabilities([p for e in events for p in e.get("completion_probabilities", [])], want["ids"], 2)
        for e in events:
            check([p["id"] for p in e.get("completion_probabilities", [])] == e["tokens"], "an event: %s" % e)
        for answer, stream, n in ((got, False, 3), (events[-1], True, 2)):
            told = answer["generation_settings"]
            wanted = {**SETTINGS, "seed": 50 + i, "temperature": 0.8, "stream": stream, "n_probs": n, "stop": []}
            check({k: told.get(k) for k in wanted} == wanted, "settings: %s" % told)
        stop = want["text"][10:14]
        got = s.post("/completion", stop=[stop], return_tokens=True, **fields).json()
        check(got["tokens"] == want["ids"][:len(got["tokens"])] and got["generation_settings"]["stop"] == [stop], str(got))
        check([got["content"], got["stop_type"], got["stopping_word"]] == [want["text"][:want["text"].index(stop)], "word", stop], str(got))
    got = s.post("/completion", prompt=PROMPTS[:3], n_predict=10, temperature=0, ignore_eos=True).json()
    check([g["content"] for g in got] == [s.run(p, 10, 0, 1)["text"] for p in PROMPTS[:3]], str(got))
    check([g["index"] for g in got] == [0, 1, 2], "indices")
    # The model has no tokens for filling in.
    for path, fields, param in (("/infill", {"input_prefix": "a", "input_suffix": "b"}, None),
                                ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
                                ("/completion", {"prompt": "a", "n": 2}, "n")):
        r = s.ask(path, fields)
        check(r.status == 400 and r.json()["error"]["param"] == param, "%s: %d %s" % (path, r.status, r.body))


def test_slots(s):
    """Save, restore and erase, with the fields that llama-server's documentation has."""
    fields = dict(prompt=PROMPTS[0] * 3, n_predict=40, temperature=0, ignore_eos=True, cache_prompt=True, id_slot=1)
    first = s.post("/completion", **fields).json()
    check(first["id_slot"] == 1, str(first))
    r = s.post("/slots/1?action=save", filename="slot_save_file.bin").json()
    check(set(r) == {"id_slot", "filename", "n_saved", "n_written", "n_text", "timings"}, str(r))
    check([r["id_slot"], r["filename"], r["n_text"]] == [1, "slot_save_file.bin", first["tokens_cached"]], str(r))
    check(0 < r["n_saved"] <= r["n_text"] and r["n_written"] > 0 and r["timings"]["save_ms"] > 0, str(r))
    saved = r["n_saved"]
    r = s.ask("/slots/1?action=erase", method="POST").json()
    check(r == {"id_slot": 1, "n_erased": first["tokens_cached"]}, str(r))
    r = s.post("/slots/0?action=restore", filename="slot_save_file.bin").json()
    check(set(r) == {"id_slot", "filename", "n_restored", "n_read", "n_text", "timings"}, str(r))
    check([r["id_slot"], r["n_restored"]] == [0, saved] and r["n_read"] > 0 and r["timings"]["restore_ms"] > 0, str(r))
    again = s.post("/completion", **{**fields, "id_slot": 0}).json()
    check([again["content"], again["id_slot"]] == [first["content"], 0], str(again))
    check(again["timings"]["prompt_n"] < first["timings"]["prompt_n"], "nothing is reused: %s" % again["timings"])
    for path, body, status in (("/slots/7?action=save", {"filename": "x"}, 400), ("/slots/0?action=none", {"filename": "x"}, 400),
                               ("/slots/0?action=save", {"filename": "../x"}, 400), ("/slots/0?action=save", {}, 400),
                               ("/slots/0?action=restore", {"filename": "absent"}, 400), ("/slots/0", {"filename": "x"}, 400)):
        r = s.ask(path, body)
        check(r.status == status and r.json()["error"]["type"] == "invalid_request_error", "%s: %d %s" % (path, r.status, r.body))


def test_infill(s, context):
    """What is asked is what the same tokens by their names ask: the same number, of which all whole blocks are cached."""
    context, answer = int(context), "return a + b"
    prefix, suffix = "def add(a, b):\n    # <|fim_middle|> is text here\n    ", "\n\n\nprint(add(1, 2))\n"

    def asks(path, fields, prompt):
        tokens = s.post("/tokenize", content=prompt, add_special=False).json()["tokens"]
        check(s.post("/completion", prompt=tokens, n_predict=1).json()["tokens_evaluated"] == len(tokens), "the same tokens")
        got = s.post(path, **fields).json()
        timings = got["timings"]
        n = timings["cache_n"] + timings["prompt_n"]
        check(n == len(tokens), "%s: %d tokens, not %d" % (fields, n, len(tokens)))
        check(timings["cache_n"] == (n - 1) // 32 * 32, "%s: %s" % (fields, timings))
        return got

    def named(before, pre, behind):
        # The middle's name in a text is no token: its first byte is one, so that it is none here either.
        return before + "<|fim_prefix|>" + pre + "<|fim_suffix|>" + behind + "<|fim_middle|>"

    plain = prefix.replace("<|fim_middle|>", "x")
    for pad in range(0, 40, 13):  # other ends of the last block
        pre = plain + "y" * pad
        got = asks("/infill", dict(input_prefix=pre, input_suffix=suffix), named("", pre, suffix))
        check(got["content"] == answer and got["stop_type"] == "eos", str(got))
        asks("/infill", dict(input_prefix=plain, prompt="y" * pad, input_suffix=suffix), named("", pre, suffix))
        got = asks("/v1/completions", dict(prompt=pre, suffix=suffix), named("", pre, suffix))
        check(got["choices"][0]["text"] == answer, str(got))
    asks("/infill", dict(input_prefix="", input_suffix=""), named("", "", ""))
    # Its name in a text is a text.
    got = s.post("/infill", input_prefix=prefix, input_suffix=suffix).json()
    check(got["tokens_evaluated"] == len(prefix) + len(suffix) + 3, str(got))
    got = s.post("/api/generate", prompt=plain, suffix=suffix, stream=False).json()
    check([got["response"], got["prompt_eval_count"]] == [answer, len(plain) + len(suffix) + 3], str(got))
    check("insert" in s.post("/api/show", model="m").json()["capabilities"], "capabilities")
    # No token: the prompt is cached for the next request.
    for path, fields in (("/infill", dict(input_prefix=plain * 3, input_suffix=suffix)), ("/completion", dict(prompt=plain * 5))):
        first, then = s.post(path, n_predict=0, **fields).json()["timings"], s.post(path, n_predict=1, **fields).json()["timings"]
        n = then["cache_n"] + then["prompt_n"]
        check(first["predicted_n"] == 1 and then["cache_n"] == (n - 1) // 32 * 32, "%s: %s, then %s" % (path, first, then))
    # Other files.
    files = [{"filename": "a.py", "text": "A = 1\n"}, {"text": "B = 2\n"}]
    before = "<|repo_name|>myproject\n<|file_sep|>a.py\nA = 1\n<|file_sep|>\nB = 2\n<|file_sep|>filename\n"
    asks("/infill", dict(input_prefix=plain, input_suffix=suffix, input_extra=files), named(before, plain, suffix))
    asks("/v1/completions", dict(prompt=plain, suffix=suffix, input_extra=files), named(before, plain, suffix))
    # The last ones are kept that leave room for the answer.
    long = [{"filename": "old", "text": "o" * (context - 150)}] + files
    asks("/infill", dict(input_prefix=plain, input_suffix=suffix, input_extra=long, n_predict=64), named(before, plain, suffix))
    asks("/infill", dict(input_prefix=plain, input_suffix=suffix, input_extra=long[:1], n_predict=100), named("", plain, suffix))
    events = events_of(s.post("/infill", stream=True, input_prefix=plain, input_suffix=suffix))
    check("".join(e["content"] for e in events) == answer, "streamed: %s" % events)
    for fields, param in (({"input_prefix": "a"}, "input_suffix"), ({"input_suffix": "a"}, "input_prefix"),
                          ({"input_prefix": "a", "input_suffix": "b", "prompt": 5}, "prompt"),
                          ({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "x"}]}, "input_extra"),
                          ({"input_prefix": "a" * context, "input_suffix": "b"}, None)):
        r = s.ask("/infill", fields)
        check(r.status == 400 and r.json()["error"]["param"] == param, "%s: %d %s" % (str(fields)[:80], r.status, r.body))


def main():
    name, port, pid, stator = sys.argv[1:5]
    try:
        globals()["test_" + name](Server(port, pid, stator), *sys.argv[5:])
    except Wrong as e:
        print("%s: %s" % (name, e))
        sys.exit(1)


main()
