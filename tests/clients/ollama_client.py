"""A client of Ollama's API in Python's standard library, for tests/e2e/serve/serve_ollama.sh.
Usage: ollama_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import json
import re
import sys

from api_client import PROMPTS, Server, Wrong, check

COUNTS = {"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}
END = COUNTS | {"done", "done_reason"}


def lines_of(r):
    check(r.status == 200 and r.headers["Content-Type"] == "application/x-ndjson", "%d %s" % (r.status, r.headers["Content-Type"]))
    text = r.body.decode()
    check(text.endswith("\n"), "the stream ends with %r" % text[-80:])
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", line["created_at"]), line["created_at"])
    check([line["done"] for line in lines] == [False] * (len(lines) - 1) + [True], "done: %s" % lines)
    check(set(lines[-1]) - {"model", "created_at", "message", "response"} == END, "the last line: %s" % lines[-1])
    return lines


def same(got, want, what):
    check(got == want, "%s:\n%s\nis not\n%s" % (what, json.dumps(got, indent=1), json.dumps(want, indent=1)))


def test_text(s):
    """The bytes of `stator run`, whole and streamed, from both routes."""
    for i, prompt in enumerate(PROMPTS):
        want = s.run(prompt, 30, 0.8, 50 + i)
        common = dict(model="any:latest", options={"num_predict": 30, "temperature": 0.8, "seed": 50 + i, "num_ctx": 4096},
                      ignore_eos=True, keep_alive="5m")
        for path, fields, text in (("/api/generate", {"prompt": prompt}, lambda line: line["response"]),
                                   ("/api/generate", {"prompt": prompt, "raw": True}, lambda line: line["response"]),
                                   ("/api/chat", {"messages": [{"role": "user", "content": prompt}]},
                                    lambda line: line["message"]["content"])):
            lines = lines_of(s.post(path, **common, **fields))
            same("".join(text(line) for line in lines), want["text"], "%s %s" % (path, fields))
            last = lines[-1]
            same([last["done_reason"], last["prompt_eval_count"], last["eval_count"]], ["length", len(want["prompt_ids"]), 30], "counts")
            got = s.post(path, stream=False, **common, **fields)
            check(got.headers["X-Stator-Ignored"] is None, "ignored: %s" % got.headers["X-Stator-Ignored"])
            same(text(got.json()), want["text"], "whole")
            check(END <= set(got.json()), got.body)
        stop = want["text"][10:14]
        got = s.post("/api/generate", prompt=prompt, raw=True, stream=False, ignore_eos=True,
                     options={"temperature": 0.8, "seed": 50 + i, "num_predict": 30, "stop": [stop]}).json()
        same([got["response"], got["done_reason"]], [want["text"][:want["text"].index(stop)], "stop"], "stop")
    got = s.post("/api/generate", system="One", prompt=" two", stream=False, options={"num_predict": 1})
    check(got.json()["prompt_eval_count"] == len(s.run("One two", 1, 0, 1)["prompt_ids"]), "system: %s" % got.body)


def test_format(s):
    """`format` constrains the answer, of both routes."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"],
              "additionalProperties": False}
    for path, fields, text in (("/api/chat", {"messages": [{"role": "user", "content": "x"}]}, lambda r: r["message"]["content"]),
                               ("/api/generate", {"prompt": "x"}, lambda r: r["response"]),
                               ("/api/generate", {"prompt": "x", "raw": True}, lambda r: r["response"])):
        got = json.loads(text(s.post(path, stream=False, format=schema, options={"temperature": 0, "num_predict": 64}, **fields).json()))
        check(set(got) == {"n"} and got["n"] in range(1, 10), "%s %s: %s" % (path, fields, got))
        # A free object may be longer than any bound: its beginning is an object's.
        got = text(s.post(path, stream=False, format="json", options={"temperature": 0, "num_predict": 16}, **fields).json())
        check(got.startswith("{"), "%s %s: %r" % (path, fields, got))


def test_loads(s):
    for path, fields in (("/api/generate", {}), ("/api/generate", {"prompt": ""}), ("/api/chat", {"messages": []}), ("/api/chat", {})):
        for more, reason in (({}, "load"), ({"keep_alive": 0}, "unload"), ({"keep_alive": 300}, "load")):
            got = s.post(path, model="any", **fields, **more).json()
            check(got["done"] is True and got["done_reason"] == reason, "%s %s: %s" % (path, more, got))
            check((got["message"]["content"] if path == "/api/chat" else got["response"]) == "", str(got))


CALL = dict(model="script", messages=[{"role": "user", "content": "Hi"}],
            tools=[{"type": "function", "function": {"name": "weather", "description": "d", "parameters": {
                "type": "object", "properties": {"city": {"type": "string"}}}}}])


def test_call(s):
    """Reasoning, text and a call; and their way back."""
    want = {"role": "assistant", "content": "I will look.", "thinking": "Let me see.",
            "tool_calls": [{"function": {"index": 0, "name": "weather", "arguments": {"city": "Rome"}}}]}
    whole = s.post("/api/chat", stream=False, **CALL).json()
    message = json.loads(json.dumps(whole["message"]))
    check(message["tool_calls"][0].pop("id").startswith("call_"), str(whole))
    same(message, want, "the answer")
    check(whole["model"] == "script" and whole["done_reason"] == "stop", str(whole))
    lines = lines_of(s.post("/api/chat", **CALL))
    calls = lines[4]["message"].pop("tool_calls")
    same([line["message"] for line in lines],
         [{"role": "assistant", "content": "", "thinking": "Let me"}, {"role": "assistant", "content": "", "thinking": " see."},
          {"role": "assistant", "content": "I will"}, {"role": "assistant", "content": " look."},
          {"role": "assistant", "content": ""}, {"role": "assistant", "content": ""}], "streamed")
    same([call["function"] for call in calls], [call["function"] for call in want["tool_calls"]], "its call")
    # What was told comes back as the model wrote it.
    turn = [whole["message"], {"role": "tool", "tool_name": "weather", "content": "sunny"}]
    again = s.post("/api/chat", stream=False, **{**CALL, "messages": CALL["messages"] + turn})
    check(again.headers["X-Stator-Ignored"] is None, "ignored: %s" % again.headers["X-Stator-Ignored"])
    as_chat = [{**whole["message"], "reasoning_content": "Let me see.", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"}]
    usage = s.post("/v1/chat/completions", messages=CALL["messages"] + as_chat, tools=CALL["tools"]).json()["usage"]
    check(again.json()["prompt_eval_count"] == usage["prompt_tokens"], "%s, %s" % (again.body, usage))


def test_model(s):
    tags, ps = s.ask("/api/tags").json()["models"], s.ask("/api/ps").json()["models"]
    same([m["name"] for m in tags], ["coder", "big model"], "/api/tags")
    same([m["model"] for m in ps], ["coder", "big model"], "/api/ps")
    show = s.post("/api/show", model="coder:latest").json()
    same(show["capabilities"], ["completion"], "capabilities")
    check(show["model_info"][show["model_info"]["general.architecture"] + ".context_length"] == 512, str(show["model_info"]))
    check(show["details"] == tags[0]["details"] and show["details"]["format"] == "gguf", str(show["details"]))
    check(re.fullmatch(r"\d+\.\d+\.\d+", s.ask("/api/version").json()["version"]), "/api/version")
    for name, status in (("coder", 200), ("big model:latest", 200), ("gpt-4o", 404)):
        check(s.ask("/api/show", {"model": name}).status == status, "/api/show %s" % name)
        got = s.ask("/api/generate", {"model": name, "prompt": "x", "options": {"num_predict": 1}})
        check(got.status == status, "/api/generate %s: %d %s" % (name, got.status, got.body))


def test_errors(s):
    ask = [{"role": "user", "content": "x"}]
    for path, body, says in (
            ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
            ("/api/generate", {"prompt": "x", "images": ["aGk="]}, "images"),
            ("/api/generate", {"prompt": "x", "context": [1, 2]}, "context"),
            ("/api/generate", {"prompt": "x", "template": "{{ .Prompt }}"}, "template"),
            ("/api/generate", {"prompt": 5}, "prompt is a number"),
            ("/api/chat", {"messages": ask, "options": []}, "options is an array"),
            ("/api/chat", {"messages": ask, "options": {"temperature": "hot"}}, "temperature"),
            ("/api/chat", {"messages": ask, "options": {"mirostat": 2}}, "mirostat"),
            ("/api/chat", {"messages": ask, "think": 5}, "think is a number"),
            ("/api/chat", {"messages": ask, "format": "xml"}, "format is a text"),
            ("/api/chat", {"messages": 5}, "messages is a number")):
        r = s.ask(path, body)
        check(r.status == 400 and set(r.json()) == {"error"} and says in r.json()["error"], "%s: %d %s" % (body, r.status, r.body))
    r = s.ask("/api/pull", {"model": "x"})
    check(r.status == 404 and "/api/pull" in r.json()["error"], r.body)
    r = s.post("/api/chat", messages=ask, options={"num_predict": 1, "frobnicate": 1}, stream=False)
    check(r.headers["X-Stator-Ignored"] == "options.frobnicate", "ignored: %s" % r.headers["X-Stator-Ignored"])


def main():
    name, port, pid, stator = sys.argv[1:5]
    try:
        globals()["test_" + name](Server(port, pid, stator), *sys.argv[5:])
    except Wrong as e:
        print("%s: %s" % (name, e))
        sys.exit(1)


main()
