"""What real clients of `stator serve` send beside the fields that it honours, for tests/e2e/serve/serve_tolerant.sh.
Usage: tolerant_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import sys

from api_client import PROMPTS, Server, Wrong, check, text_of


def refused(s, fields, status, param, says=""):
    r = s.ask("/v1/completions", {"prompt": "x", "max_tokens": 1, **fields})
    check(r.status == status, "%s: %d %s" % (fields, r.status, r.body[:300]))
    error = r.json()["error"]
    check(error["param"] == param and says in error["message"], "%s: %s" % (fields, error))


def test_fields(s):
    """Fields that cannot change the answer don't, and those that nobody knows are named in a header."""
    base = dict(prompt=PROMPTS[0], max_tokens=12, temperature=0.9, seed=42, repeat_penalty=1.25, ignore_eos=True)
    want = s.post("/v1/completions", **base).json()["choices"][0]["text"]
    other = dict(prompt=PROMPTS[0], n_predict=12.0, temperature=0.9, seed=42.0, repetition_penalty=1.25, ignore_eos=True,
                 xtc_probability=0, dry_multiplier=0, mirostat=0, typical_p=1, min_tokens=0, n_probs=0, suffix=None, stop="",
                 timings_per_token=True, return_progress=True, id_slot=-1, model="gpt-4o", cache_control={}, keep_alive=300)
    r = s.post("/v1/completions", **other)
    check(r.json()["choices"][0]["text"] == want, "another text: %s" % r.body)
    check(r.headers["X-Stator-Ignored"] is None, "ignored: %s" % r.headers["X-Stator-Ignored"])
    r = s.post("/v1/completions", frobnicate=1, thinking={"type": "enabled"}, **base)
    check(r.json()["choices"][0]["text"] == want, "another text: %s" % r.body)
    check(r.headers["X-Stator-Ignored"] == "frobnicate, thinking", "ignored: %s" % r.headers["X-Stator-Ignored"])
    r = s.post("/v1/completions", stream=True, frobnicate=1, **base)
    check(r.headers["X-Stator-Ignored"] == "frobnicate", "ignored, streamed: %s" % r.headers["X-Stator-Ignored"])
    check(s.post("/tokenize", content="x", frobnicate=1).headers["X-Stator-Ignored"] == "frobnicate", "/tokenize")
    check(s.post("/completions", **base).json()["choices"][0]["text"] == want, "/completions")
    check(s.ask("/embedding", {"content": "x"}).status == 501, "/embedding")
    r = s.post("/v1/completions", repeat_last_n=64, **base)
    check(r.json()["choices"][0]["text"] == want and r.headers["X-Stator-Ignored"] is None, "repeat_last_n 64: %s" % r.body)
    r = s.post("/v1/completions", prompt="x", max_tokens=1, repeat_last_n=128)
    check(r.headers["X-Stator-Ignored"] == "repeat_last_n", "repeat_last_n without a penalty: %s" % r.headers["X-Stator-Ignored"])
    for penalty in ("repeat_penalty", "repetition_penalty", "presence_penalty", "frequency_penalty"):
        refused(s, {"repeat_last_n": 128, penalty: 1.5}, 400, "repeat_last_n", "64")
    refused(s, {"mirostat": 2}, 400, "mirostat")
    refused(s, {"guided_grammar": "a"}, 400, "guided_grammar")  # a GBNF grammar has rules


def test_stop_ids(s):
    ids = s.run(PROMPTS[0], 24, 0, 1)["ids"]
    at = max(ids.index(i) for i in ids)  # the first place of a token that comes late
    want = s.run(PROMPTS[0], at, 0, 1)["text"]
    fields = dict(prompt=PROMPTS[0], max_tokens=24, temperature=0, ignore_eos=True, stop_token_ids=[ids[at]])
    got = s.post("/v1/completions", **fields).json()
    check(got["choices"][0]["text"] == want, "%r is not %r" % (got["choices"][0]["text"], want))
    check(got["choices"][0]["finish_reason"] == "stop" and got["usage"]["completion_tokens"] == at, str(got))
    check(text_of(s.post("/v1/completions", stream=True, **fields).events()) == want, "streamed")


def test_max_tokens(s, context):
    """More than there is room for ends with the context; so does an answer without a limit."""
    context = int(context)
    prompt = len(s.run(PROMPTS[0], 1, 0, 1)["prompt_ids"])
    for fields in ({"max_tokens": 32000}, {"max_tokens": -1}, {"n_predict": -2}, {}):
        got = s.post("/v1/completions", prompt=PROMPTS[0], temperature=0, ignore_eos=True, **fields).json()
        check(got["choices"][0]["finish_reason"] == "length", "%s: %s" % (fields, got["choices"][0]["finish_reason"]))
        check(got["usage"]["completion_tokens"] == context - prompt + 1, "%s: %s" % (fields, got["usage"]))


def test_goes_on(s):
    """A last message of the assistant goes on, in every API; the server's model says what the script has, whatever the prompt is."""
    ask = {"role": "user", "content": "How is it?"}
    said, thought = {"role": "assistant", "content": "It is mild"}, {"role": "assistant", "content": "", "reasoning_content": "Hm"}

    def answer(messages, **fields):
        prompt = s.post("/apply-template", messages=messages, **fields).json()["prompt"]
        got = s.post("/v1/chat/completions", messages=messages, temperature=0, **fields).json()
        tokens = s.post("/tokenize", content=prompt, add_special=False).json()["tokens"]
        check(got["usage"]["prompt_tokens"] == len(tokens), "%s: %s, %d tokens" % (messages, got["usage"], len(tokens)))
        message = got["choices"][0]["message"]
        return prompt, message["content"], message.get("reasoning_content")

    begin = "<|im_start|>user\nHow is it?<|im_end|>\n<|im_start|>assistant\n"
    new = (begin + "It is mild<|im_end|>\n<|im_start|>assistant\n", "and</think>warm", None)
    on = (begin + "It is mild", " and</think>warm", None)
    check(answer([ask, said]) == on, "goes on: %s" % (answer([ask, said]),))
    check(answer([ask, said], continue_final_message=True) == on, "continue_final_message: true")
    check(answer([ask, said], continue_final_message=False)[0] == new[0], "continue_final_message: false")
    check(answer([ask, said], add_generation_prompt=True)[0] == new[0], "add_generation_prompt: true")
    check(answer([ask, thought]) == (begin + "<think>\nHm", "warm", " and"), "reasoning: %s" % (answer([ask, thought]),))
    check(answer([ask, {"role": "assistant", "content": ""}])[0] == begin, "an empty message is not there")
    events = s.post("/v1/chat/completions", messages=[ask, said], temperature=0, stream=True).events()
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events)
    check(text == on[1], "streamed: %r" % text)
    got = s.post("/v1/messages", messages=[ask, said], max_tokens=9, temperature=0).json()
    check([b["text"] for b in got["content"]] == [on[1]], "Messages: %s" % got)
    refused_chat = s.ask("/v1/chat/completions", {"messages": [ask], "continue_final_message": True})
    check(refused_chat.status == 400 and refused_chat.json()["error"]["param"] == "continue_final_message", refused_chat.body)
    both = s.ask("/v1/chat/completions", {"messages": [ask, said], "continue_final_message": True, "add_generation_prompt": True})
    check(both.status == 400, both.body)


def test_system(s, where):
    """System messages that the template refuses or drops where they stand are merged."""
    messages = [{"role": "system", "content": "One."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"},
                {"role": "developer", "content": "Two."}, {"role": "user", "content": "So?"}]
    want = {"first": "[system]One.\n\nTwo.[user]Hi[assistant]Yes[user]So?", "nowhere": "[user]One.\n\nTwo.\n\nHi[assistant]Yes[user]So?"}
    got = s.post("/apply-template", messages=messages).json()["prompt"]
    check(got == want[where] + "[assistant]", got)
    s.post("/v1/chat/completions", messages=messages, max_tokens=1)
    alone = s.post("/apply-template", messages=messages[3:4]).json()["prompt"]
    check(alone == ("[system]Two." if where == "first" else "[user]Two.") + "[assistant]", alone)


def test_strict(s):
    """server.max_tokens, unknown_fields = "refuse", strict_model = true."""
    refused(s, {"frobnicate": 1}, 400, "frobnicate", "not known")
    refused(s, {"model": "gpt-4o"}, 404, "model", "coder")
    refused(s, {"max_tokens": 100000}, 400, "max_tokens", "together")
    for name in ("coder", "big model", "stator demo", "default", ""):
        got = s.post("/v1/completions", prompt="x", max_tokens=1, model=name).json()
        check(got["model"] == "coder", "the model is called %s" % got["model"])
    listed = [m["id"] for m in s.ask("/v1/models").json()["data"]]
    check(listed == ["coder", "big model"], "listed: %s" % listed)
    for path, name in (("coder", "coder"), ("big%20model", "big model"), ("stator%20demo", "stator demo")):
        got = s.ask("/v1/models/" + path)
        check(got.status == 200 and got.json()["id"] == name, "%s: %d %s" % (path, got.status, got.body))
    for path in ("gpt-4o", "code", "coder/"):
        got = s.ask("/v1/models/" + path)
        check(got.status == 404 and got.json()["error"]["param"] == "model", "%s: %d %s" % (path, got.status, got.body))
    check(s.ask("/v1/models/").status == 404, "a name that is empty")


def main():
    name, port, pid, stator = sys.argv[1:5]
    try:
        globals()["test_" + name](Server(port, pid, stator), *sys.argv[5:])
    except Wrong as e:
        print("%s: %s" % (name, e))
        sys.exit(1)


main()
