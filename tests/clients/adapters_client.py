"""Clients of Anthropic's Messages and OpenAI's Responses in Python's standard library, for tests/e2e/serve/serve_adapters.sh.
Usage: adapters_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import http.client
import json
import sys

from api_client import PATIENCE, PROMPTS, Server, Wrong, check

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}
ARGUMENTS = '{"city": "Rome", "n": 12345678901234567890}'


def events_of(reply):
    """(name, data) of each event; the name is also data's type."""
    text = reply.body.decode()
    check(text.endswith("\n\n"), "the stream ends with %r" % text[-80:])
    out = []
    for event in text.split("\n\n")[:-1]:
        if event.startswith(":"):
            continue
        lines = event.split("\n")
        check(len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), "an event is %r" % event)
        data = json.loads(lines[1][6:])
        check(data["type"] == lines[0][7:], "the event %s has the type %s" % (lines[0], data["type"]))
        out.append(data)
    return out


def same(got, want, what):
    check(got == want, "%s:\n%s\nis not\n%s" % (what, json.dumps(got, indent=1), json.dumps(want, indent=1)))


def usage_of(prompt, cached, generated):
    return {"input_tokens": prompt - cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached,
            "output_tokens": generated}


# --- Anthropic

def anthropic_blocks(events):
    """What a client puts together of a stream's events."""
    message, blocks, pieces = None, [], []
    for e in events:
        kind = e["type"]
        if kind == "message_start":
            message = e["message"]
        elif kind == "content_block_start":
            check(e["index"] == len(blocks), "index %d of block %d" % (e["index"], len(blocks)))
            blocks.append(dict(e["content_block"]))
            pieces.append("")
        elif kind == "content_block_delta":
            check(e["index"] == len(blocks) - 1, "a delta of another block")
            delta = e["delta"]
            if delta["type"] == "input_json_delta":
                pieces[-1] += delta["partial_json"]
            else:
                name = delta["type"][:-len("_delta")]
                blocks[-1][name] = blocks[-1].get(name, "") + delta[name]
        elif kind == "message_delta":
            message = {**message, **e["delta"], "usage": e["usage"]}
    for block, text in zip(blocks, pieces):
        if block["type"] == "tool_use" and text:
            block["input"] = json.loads(text)
    return {**message, "content": blocks}


def without_ids(message):
    blocks = [{k: v for k, v in b.items() if k != "id"} for b in message["content"]]
    return {**{k: v for k, v in message.items() if k not in ("id", "usage")}, "content": blocks}


def test_anthropic_text(s):
    """The bytes of `stator run`, whole and streamed; stop sequences; the end at max_tokens."""
    for i, prompt in enumerate(PROMPTS):
        want = s.run(prompt, 30, 0.8, 50 + i)
        fields = dict(model="any", max_tokens=30, temperature=0.8, seed=50 + i, ignore_eos=True,
                      messages=[{"role": "user", "content": prompt}])
        got = s.post("/v1/messages", **fields).json()
        check(got["id"].startswith("msg_"), got["id"])
        usage = got["usage"]
        same({k: v for k, v in got.items() if k not in ("id", "model", "usage")},
             {"type": "message", "role": "assistant", "content": [{"type": "text", "text": want["text"]}],
              "stop_reason": "max_tokens", "stop_sequence": None}, "the answer")
        n = len(want["prompt_ids"])
        check(usage["input_tokens"] + usage["cache_read_input_tokens"] == n and usage["output_tokens"] == 30, str(usage))
        events = events_of(s.post("/v1/messages?beta=true", stream=True, **fields))
        same(without_ids(anthropic_blocks(events)), without_ids(got), "streamed")
        check(s.post("/v1/messages/count_tokens", messages=fields["messages"]).json() == {"input_tokens": n}, "count_tokens")
        stop = want["text"][10:14]
        got = s.post("/v1/messages", **{**fields, "stop_sequences": ["never there", stop]}).json()
        check(got["stop_reason"] == "stop_sequence" and got["stop_sequence"] == stop, str(got))
        check(got["content"][0]["text"] == want["text"][:want["text"].index(stop)], str(got))


CALL = dict(model="m", max_tokens=200, messages=[{"role": "user", "content": "Hi"}],
            tools=[{"name": "weather", "description": "d", "input_schema": WEATHER},
                   {"type": "web_search_20250305", "name": "web_search"}])


def test_anthropic_call(s):
    """Reasoning, text and a call: the blocks, and the exact events."""
    r = s.post("/v1/messages", **CALL)
    check(r.headers["X-Stator-Ignored"] == "tools.web_search_20250305", "ignored: %s" % r.headers["X-Stator-Ignored"])
    check(ARGUMENTS in r.body.decode(), "the arguments are not as the model wrote them: %s" % r.body)
    whole = r.json()
    same(without_ids(whole), {
        "type": "message", "role": "assistant", "model": "script", "stop_reason": "tool_use", "stop_sequence": None,
        "content": [{"type": "thinking", "thinking": "Let me see.", "signature": "stator"}, {"type": "text", "text": "I will look."},
                    {"type": "tool_use", "name": "weather", "input": json.loads(ARGUMENTS)}]}, "the answer")
    check(whole["content"][2]["id"].startswith("toolu_"), whole["content"][2]["id"])
    prompt = whole["usage"]["input_tokens"]
    same(whole["usage"], usage_of(prompt, 0, 11), "usage")
    events = events_of(s.post("/v1/messages", stream=True, **CALL))
    cached = events[0]["message"]["usage"]["cache_read_input_tokens"]
    check(cached > 0 and cached % 32 == 0, "%s of the prompt are cached" % cached)
    message, call = events[0]["message"]["id"], events[10]["content_block"]["id"]

    def delta(index, kind, name, text):
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: text}}
    same(events, [
        {"type": "message_start", "message": {
            "id": message, "type": "message", "role": "assistant", "model": "script", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": usage_of(prompt, cached, 0)}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        delta(0, "thinking_delta", "thinking", "Let me"), delta(0, "thinking_delta", "thinking", " see."),
        delta(0, "signature_delta", "signature", "stator"), {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        delta(1, "text_delta", "text", "I will"), delta(1, "text_delta", "text", " look."), {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": call, "name": "weather", "input": {}}},
        delta(2, "input_json_delta", "partial_json", '{"city": '),
        delta(2, "input_json_delta", "partial_json", '"Rome", "n": 12345678901234567890}'), {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage_of(prompt, cached, 11)},
        {"type": "message_stop"}], "events")
    same(without_ids(anthropic_blocks(events)), without_ids(whole), "put together")


def test_anthropic_history(s):
    """What the server said is taken back, and its prompt is the one that was computed."""
    answer = s.post("/v1/messages", **CALL).json()
    messages = CALL["messages"] + [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answer["content"][2]["id"],
                                      "content": [{"type": "text", "text": "sunny"}]}]}]
    got = s.post("/v1/messages", **{**CALL, "messages": messages}).json()
    before = answer["usage"]["input_tokens"] + answer["usage"]["cache_read_input_tokens"]
    check(got["usage"]["cache_read_input_tokens"] >= before // 32 * 32, "%s of %s tokens were there: %s" % (
        got["usage"]["cache_read_input_tokens"], before, got))
    for choice, status in (({"type": "none"}, 200), ({"type": "any"}, 200), ({"type": "tool", "name": "weather"}, 200),
                           ({"type": "tool", "name": "other"}, 400)):
        r = s.ask("/v1/messages", {**CALL, "tool_choice": choice})
        check(r.status == status, "%s: %d %s" % (choice, r.status, r.body))


def test_anthropic_broken(s):
    """A call that breaks off: its text as the argument, so that input is an object."""
    fields = {**CALL, "max_tokens": 3}
    got = s.post("/v1/messages", **fields).json()
    same(got["content"][0]["input"], {"arguments": '{"a": "b'}, "input")
    check(got["stop_reason"] == "max_tokens", got["stop_reason"])
    events = events_of(s.post("/v1/messages", stream=True, **fields))
    text = "".join(e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta")
    check(text == '{"a": "b', text)
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": got["content"]}, {"role": "user", "content": "So?"}]
    s.post("/v1/messages", **{**fields, "messages": messages})


# --- Responses

def test_responses_text(s):
    """The bytes of `stator run`, whole and streamed; the end at max_output_tokens."""
    for i, prompt in enumerate(PROMPTS):
        want = s.run(prompt, 30, 0.8, 50 + i)
        fields = dict(model="any", max_output_tokens=30, temperature=0.8, seed=50 + i, ignore_eos=True, input=prompt)
        got = s.post("/v1/responses", **fields).json()
        check(got["id"].startswith("resp_") and got["object"] == "response", str(got))
        check(got["status"] == "incomplete" and got["incomplete_details"] == {"reason": "max_output_tokens"}, str(got))
        item = got["output"][0]
        same({k: v for k, v in item.items() if k != "id"},
             {"type": "message", "status": "incomplete", "role": "assistant",
              "content": [{"type": "output_text", "text": want["text"], "annotations": [], "logprobs": []}]}, "the item")
        usage, n = got["usage"], len(want["prompt_ids"])
        check(usage["input_tokens"] == n and usage["output_tokens"] == 30 and usage["total_tokens"] == n + 30, str(usage))
        events = events_of(s.post("/v1/responses", stream=True, **fields))
        check([e["sequence_number"] for e in events] == list(range(len(events))), "sequence numbers")
        text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        check(text == want["text"], "streamed: %r" % text)
        check(events[-1]["type"] == "response.incomplete", events[-1]["type"])
        check(events[-1]["response"]["output"][0]["content"] == item["content"], "the last event")
    check(s.post("/v1/responses", input="", max_output_tokens=1).json()["usage"]["output_tokens"] == 1, "an empty input")


RESPONSES_CALL = dict(model="m", input="Hi", tools=[{"type": "function", "name": "weather", "description": "d", "parameters": WEATHER},
                                                    {"type": "web_search"}])


def test_responses_call(s):
    """Reasoning, a message and a call: the items, and the exact events."""
    r = s.post("/v1/responses", **RESPONSES_CALL)
    check(r.headers["X-Stator-Ignored"] == "tools.web_search", "ignored: %s" % r.headers["X-Stator-Ignored"])
    whole = r.json()
    answer = whole["id"][len("resp_"):]
    names = {"rs": "rs_%s_0", "msg": "msg_%s_1", "fc": "fc_%s_2", "call": "call_%s_0_0"}

    def items(status, answer):
        ids = {k: v % answer for k, v in names.items()}
        return [
            {"id": ids["rs"], "type": "reasoning", "status": status, "summary": [],
             "content": [{"type": "reasoning_text", "text": "Let me see."}]},
            {"id": ids["msg"], "type": "message", "status": status, "role": "assistant",
             "content": [{"type": "output_text", "text": "I will look.", "annotations": [], "logprobs": []}]},
            {"id": ids["fc"], "type": "function_call", "status": status, "call_id": ids["call"], "name": "weather", "arguments": ARGUMENTS}]
    same(whole["output"], items("completed", answer), "the items")
    check(whole["status"] == "completed" and whole["error"] is None and whole["incomplete_details"] is None, str(whole))
    prompt = whole["usage"]["input_tokens"]
    same(whole["usage"], {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 11,
                          "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": prompt + 11}, "usage")
    events = events_of(s.post("/v1/responses", stream=True, **RESPONSES_CALL))
    answer = events[0]["response"]["id"][len("resp_"):]
    check([e.pop("sequence_number") for e in events] == list(range(len(events))), "sequence numbers")
    first, last = events[0].pop("response"), events[-1].pop("response")
    check(events[1].pop("response") == first, "in_progress differs from created")
    check(first["status"] == "in_progress" and first["output"] == [] and first["usage"] is None, str(first))
    cached = last["usage"]["input_tokens_details"]["cached_tokens"]
    check(cached > 0 and last["usage"]["input_tokens"] == prompt, str(last["usage"]))
    same({**last, "usage": 0, "id": 0, "created_at": 0, "output": 0}, {**whole, "usage": 0, "id": 0, "created_at": 0, "output": 0},
         "the response")
    same(last["output"], items("completed", answer), "its items")
    begun, done = items("in_progress", answer), items("completed", answer)
    begun[0]["content"], begun[1]["content"], begun[2]["arguments"] = [], [], ""
    want = [{"type": "response.created"}, {"type": "response.in_progress"}]
    for i, (kind, parts) in enumerate((("reasoning_text", ["Let me", " see."]), ("output_text", ["I will", " look."]))):
        place = {"item_id": begun[i]["id"], "output_index": i, "content_index": 0}
        part, more = done[i]["content"][0], {"logprobs": []} if kind == "output_text" else {}
        want += [{"type": "response.output_item.added", "output_index": i, "item": begun[i]},
                 {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}]
        want += [{"type": "response.%s.delta" % kind, **place, "delta": piece, **more} for piece in parts]
        want += [{"type": "response.%s.done" % kind, **place, "text": part["text"], **more},
                 {"type": "response.content_part.done", **place, "part": part},
                 {"type": "response.output_item.done", "output_index": i, "item": done[i]}]
    place = {"item_id": begun[2]["id"], "output_index": 2}
    want += [{"type": "response.output_item.added", "output_index": 2, "item": begun[2]}]
    want += [{"type": "response.function_call_arguments.delta", **place, "delta": piece}
             for piece in ('{"city": ', '"Rome", "n": 12345678901234567890}')]
    want += [{"type": "response.function_call_arguments.done", **place, "name": "weather", "arguments": ARGUMENTS},
             {"type": "response.output_item.done", "output_index": 2, "item": done[2]}, {"type": "response.completed"}]
    same(events, want, "events")


def test_responses_settings(s):
    """A response repeats what it was asked for with, but for tools that were left out; the config's values where nothing was said."""
    nothing = {"instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {}, "prompt_cache_key": None,
               "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "text": {"format": {"type": "text"}},
               "tool_choice": "auto", "tools": [], "user": None, "temperature": 0.8, "top_p": 0.95, "background": False,
               "parallel_tool_calls": True, "previous_response_id": None, "store": False, "top_logprobs": 0, "truncation": "disabled"}
    asked = {"instructions": "Be\n\"brief\" \u00e9.", "max_output_tokens": 40, "metadata": {"a": "b\n"}, "prompt_cache_key": "k",
             "reasoning": {"effort": "low", "summary": "auto"}, "text": {"format": {"type": "text"}, "verbosity": "low"},
             "tool_choice": "auto", "tools": RESPONSES_CALL["tools"][:1], "user": "u", "temperature": 0.25, "top_p": 0.5,
             "parallel_tool_calls": False}
    for fields, want in ((dict(input="Hi"), nothing),
                         (dict(asked, input="Hi", tools=RESPONSES_CALL["tools"], store=True), {**nothing, **asked})):
        got = s.post("/v1/responses", **fields).json()
        same({k: got.get(k) for k in want}, want, "whole")
        events = events_of(s.post("/v1/responses", stream=True, **fields))
        for e in (events[0], events[1], events[-1]):
            same({k: e["response"].get(k) for k in want}, want, e["type"])


def test_responses_history(s):
    """What the server said is taken back, and its prompt is the one that was computed."""
    answer = s.post("/v1/responses", **RESPONSES_CALL).json()
    items = [{"role": "user", "content": "Hi"}] + answer["output"] + [
        {"type": "function_call_output", "call_id": answer["output"][2]["call_id"], "output": "sunny"}]
    got = s.post("/v1/responses", **{**RESPONSES_CALL, "input": items}).json()
    before = answer["usage"]["input_tokens"]
    check(got["usage"]["input_tokens_details"]["cached_tokens"] >= before // 32 * 32, str(got["usage"]))
    # Clients that refer to items, and those that keep of reasoning what is sealed.
    whole = got["usage"]["input_tokens"]
    references = [{"type": "item_reference", "id": item["id"]} for item in answer["output"]]
    for stream in (False, True):
        r = s.post("/v1/responses", **{**RESPONSES_CALL, "input": items[:1] + references + items[4:], "stream": stream})
        usage = events_of(r)[-1]["response"]["usage"] if stream else r.json()["usage"]
        check(usage["input_tokens"] == whole and usage["input_tokens_details"]["cached_tokens"] >= whole // 32 * 32 - 32, str(usage))
    sealed = s.post("/v1/responses", **{**RESPONSES_CALL, "include": ["reasoning.encrypted_content"]}).json()["output"][0]
    check(sealed["encrypted_content"] == "stator:Let me see.", str(sealed))
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": sealed["encrypted_content"]}
    got = s.post("/v1/responses", **{**RESPONSES_CALL, "input": items[:1] + [sealed] + items[2:]}).json()
    check(got["usage"]["input_tokens"] == whole, str(got["usage"]))
    r = s.ask("/v1/responses", {"input": "x", "previous_response_id": "resp_1"})
    error = r.json()["error"]
    check(r.status == 400 and error["param"] == "previous_response_id" and error["type"] == "invalid_request_error", str(error))


def test_chat_arguments(s):
    """A call comes back with other blanks, another order and numbers as JavaScript has them: the prompt is as the model wrote it."""
    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    user = {"role": "user", "content": "Hi"}

    def prompt(call, arguments):
        call = {**call, "function": {"name": "weather", "arguments": arguments}}
        messages = [user, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "x", "content": "sunny"}]
        return s.post("/apply-template", messages=messages, tools=tools).json()["prompt"]
    call = s.post("/v1/chat/completions", messages=[user], tools=tools).json()["choices"][0]["message"]["tool_calls"][0]
    want = prompt(call, call["function"]["arguments"])
    check(ARGUMENTS in want, want)
    again = '{"n":12345678901234567000,"city":"Rome"}'
    check(prompt(call, again) == want, prompt(call, again))
    check(prompt({**call, "id": "call_other"}, again) != want, "a call that nobody made is taken for another")
    check('"Oslo"' in prompt(call, '{"n":1,"city":"Oslo"}'), "what the client changed is lost")


def test_budget(s, message):
    """Reasoning of at most so many tokens: the message and the closing tag come then, and the answer goes on."""
    ask = dict(CALL, messages=[{"role": "user", "content": "Hi"}])
    for tokens, thought in ((1, "Let me" + message), (0, message.strip()), (50, "Let me see."), (-1, "Let me see.")):
        chat = s.post("/v1/chat/completions", messages=ask["messages"], reasoning_budget_tokens=tokens).json()["choices"][0]["message"]
        check((chat["reasoning_content"], chat["content"][:12]) == (thought, "I will look."), "%d: %s" % (tokens, chat))
        if tokens > 0:
            got = s.post("/v1/messages", **ask, thinking={"type": "enabled", "budget_tokens": tokens}).json()
            check(got["content"][0]["thinking"] == thought, "%d: %s" % (tokens, got))
    # Where the request says nothing, the config does.
    got = s.post("/v1/messages", **ask).json()
    check(got["content"][0]["thinking"] == "Let me" + message, str(got))
    r = s.ask("/v1/chat/completions", {"messages": ask["messages"], "reasoning_budget_tokens": -2})
    check(r.status == 400 and r.json()["error"]["param"] == "reasoning_budget_tokens", str(r.body))


def test_budget_channels(s, message):
    """The same for gpt-oss, whose reasoning is a channel."""
    for tokens, thought in ((1, "One" + message), (2, "One two" + message), (0, message.strip()), (50, "One two three."), (-1, "One two three.")):
        fields = dict(messages=[{"role": "user", "content": "Hi"}], reasoning_budget_tokens=tokens)
        got = s.post("/v1/chat/completions", **fields).json()["choices"][0]
        check((got["message"]["reasoning_content"], got["message"]["content"], got["finish_reason"]) == (thought, "Yes.", "stop"),
              "%d: %s" % (tokens, got))
        deltas = [e["choices"][0]["delta"] for e in s.post("/v1/chat/completions", stream=True, **fields).events()]
        check("".join(d.get("reasoning_content", "") for d in deltas) == thought, "%d, streamed: %s" % (tokens, deltas))
    ask = dict(max_tokens=100, messages=[{"role": "user", "content": "Hi"}])
    got = s.post("/v1/messages", **ask, thinking={"type": "enabled", "budget_tokens": 2}).json()["content"]
    check([b.get("thinking") or b.get("text") for b in got] == ["One two" + message, "Yes."], str(got))


def ask_raw(s, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, headers)
        r = connection.getresponse()
        return r.status, json.loads(r.read())
    finally:
        connection.close()


def test_anthropic_errors(s):
    key, good = {"x-api-key": "secret"}, b'{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}'
    for path, headers, body, status, kind, says in (
            ("/v1/messages", {}, good, 401, "authentication_error", "a key is needed"),
            ("/v1/messages", {"Authorization": "Bearer no"}, good, 401, "authentication_error", "is wrong"),
            ("/v1/messages/batches", key, good, 404, "not_found_error", "/v1/messages/batches"),
            ("/v1/messages", key, b"{" + b" " * 70000 + b"}", 413, "request_too_large", "server.max_body"),
            ("/v1/messages", key, b"{", 400, "invalid_request_error", "no JSON"),
            ("/v1/messages", key, b'{"max_tokens": 0, "messages": [{"role": "user", "content": "x"}]}', 400, "invalid_request_error",
             "max_tokens"),
            ("/v1/messages", key, b'{"max_tokens": 1, "n": 2, "messages": [{"role": "user", "content": "x"}]}', 400,
             "invalid_request_error", "one answer")):
        got, body = ask_raw(s, path, body, headers)
        check(got == status, "%s: %d %s" % (says, got, body))
        check(set(body) == {"type", "error"} and body["type"] == "error" and set(body["error"]) == {"type", "message"}, str(body))
        check(body["error"]["type"] == kind and says in body["error"]["message"], "%s: %s" % (says, body))
    status, body = ask_raw(s, "/v1/messages", good, key)
    check(status == 200, str(body))
    status, body = ask_raw(s, "/v1/messagesx", good, key)
    check(status == 404 and body["error"]["code"] == 404, "another path: %s" % body)


def main():
    name, port, pid, stator = sys.argv[1:5]
    try:
        globals()["test_" + name](Server(port, pid, stator), *sys.argv[5:])
    except Wrong as e:
        print("%s: %s" % (name, e))
        sys.exit(1)


main()
