"""Structured output of `stator serve`, for tests/e2e/serve/serve_structure.sh and serve_calls.sh: every answer of a model that has learnt no JSON is valid.
Usage: structure_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import http.client
import json
import re
import sys

from api_client import Server, Wrong, check, text_of

try:
    import jsonschema
except ImportError:
    jsonschema = None

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "kind": {"enum": ["cat", "dog"]}},
          "required": ["name", "age", "kind"], "additionalProperties": False}
LIST = {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/pair"}]}, "minItems": 1, "maxItems": 3,
        "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "integer", "maximum": 9, "minimum": 0}, {"const": "x"}], "items": False,
                           "minItems": 2}}}
BASE = dict(prompt="One day", max_tokens=200, temperature=1.5)


def valid(text, schema):
    value = json.loads(text)
    if jsonschema is not None:
        jsonschema.Draft202012Validator(schema).validate(value)
    return value


def test_schemas(s):
    for schema in (PERSON, LIST):
        spellings = [{"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}},
                     {"response_format": {"type": "json_object", "schema": schema}}, {"json_schema": schema}, {"guided_json": schema},
                     {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}}]
        texts = []
        for fields in spellings:
            got = s.post("/v1/completions", seed=5, n=3, **BASE, **fields).json()["choices"]
            for choice in got:
                check(choice["finish_reason"] == "stop", "%s: %s" % (fields, choice))
                valid(choice["text"], schema)
            texts.append([choice["text"] for choice in got])
        check(all(t == texts[0] for t in texts), "the spellings' answers differ: %s" % texts)
        check(len(set(texts[0])) > 1, "all seeds have one answer: %s" % texts[0])
        streamed = s.post("/v1/completions", seed=5, stream=True, **BASE, **spellings[0]).events()
        check(text_of(streamed) == texts[0][0], "streamed: %s" % text_of(streamed))
    got = s.post("/v1/completions", seed=2, response_format={"type": "json_object"}, **dict(BASE, max_tokens=400)).json()["choices"][0]
    check(got["text"].startswith("{"), "json_object: %s" % got)
    check(got["finish_reason"] == "length" or isinstance(json.loads(got["text"]), dict), "json_object: %s" % got)


def test_expressions(s):
    for seed in range(4):
        for fields in ({"guided_regex": "[a-c]{3}\\."}, {"regex": "[a-c]{3}\\."}, {"structured_outputs": {"regex": "[a-c]{3}\\."}}):
            text = s.post("/v1/completions", seed=seed, **BASE, **fields).json()["choices"][0]["text"]
            check(re.fullmatch("[a-c]{3}\\.", text), "%s: %r" % (fields, text))
        choices = ["yes (or so)", "no.", "{a|b}", "x\ny"]
        for fields in ({"guided_choice": choices}, {"structured_outputs": {"choice": choices}}):
            text = s.post("/v1/completions", seed=seed, **BASE, **fields).json()["choices"][0]["text"]
            check(text in choices, "%s: %r" % (fields, text))


def test_grammars(s):
    """GBNF, in llama-server's field and in vLLM's."""
    gbnf = 'root ::= item{2} "." # two\nitem ::= "<" name ">" | "(" name ")"\nname ::= [a-c]{1,9}\n'
    matching = r"(<[a-c]{1,9}>|\([a-c]{1,9}\)){2}\."
    for seed in range(4):
        texts = []
        for fields in ({"grammar": gbnf}, {"guided_grammar": gbnf}, {"ebnf": gbnf}, {"structured_outputs": {"grammar": gbnf}}):
            text = s.post("/v1/completions", seed=seed, **BASE, **fields).json()["choices"][0]["text"]
            check(re.fullmatch(matching, text), "%s: %r" % (fields, text))
            texts.append(text)
        check(all(t == texts[0] for t in texts), "the spellings' answers differ: %s" % texts)
    got = s.post("/completion", grammar=gbnf, prompt="One day", n_predict=200, temperature=1.5).json()
    check(re.fullmatch(matching, got["content"]), "/completion: %s" % got)
    check(s.post("/v1/completions", grammar="", **dict(BASE, max_tokens=1)).status == 200, "an empty grammar asks for nothing")
    refused(s, {"grammar": 'root ::= "a"\n  b'}, 400, "grammar", "GBNF, line 2")
    refused(s, {"grammar": 'root ::= root "a" | "b"'}, 400, "grammar", "root")
    refused(s, {"structured_outputs": {"grammar": "a"}}, 400, "structured_outputs", "GBNF")
    refused(s, {"guided_grammar": ["a"]}, 400, "guided_grammar", "GBNF")
    refused(s, {"grammar": gbnf, "json_schema": PERSON}, 400, "grammar", "json_schema")
    refused(s, {"structured_outputs": {"structural_tag": "a"}}, 400, "structured_outputs", "structural_tag")


def explains(r, param, *says):
    error = r.json()["error"]
    check(error["param"] == param and all(word in error["message"] for word in says), str(error))


def refused(s, fields, status, param, *says):
    r = s.ask("/v1/completions", {**BASE, **fields})
    check(r.status == status, "%s: %d %s" % (fields, r.status, r.body[:300]))
    explains(r, param, *says)


def test_refusals(s, growth):
    for field in ("guided_json", "json_schema"):
        refused(s, {field: {"properties": {"a": {"type": "array", "uniqueItems": True}}}}, 400, field, field, '"uniqueItems"')
    refused(s, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {"type": "null"}}}}}, 400, "response_format",
            '"not"')
    refused(s, {"guided_regex": "a("}, 400, "guided_regex", "(")
    refused(s, {"guided_regex": "(?=a)b"}, 400, "guided_regex")
    refused(s, {"guided_json": "{"}, 400, "guided_json", "JSON")
    deep = 3000 * "[" + 3000 * "]"
    refused(s, {"guided_json": '{"const": %s}' % deep}, 400, "guided_json")
    refused(s, {"guided_regex": 9 * "((((((((((a{1,99}){1,99}){1,99}){1,99}b?){1,99}c){1,99}){1,99}){1,99}){1,99})"}, 400, "guided_regex")
    check(growth == "any" or s.figures()["stator_host_grown_bytes"] == 0, "the server has grown")


def answers_unread(s, n):
    """n constrained answers have begun that nobody reads."""
    streams = []
    for i in range(n):
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=600)
        c.request("POST", "/v1/completions", json.dumps({**BASE, "max_tokens": 900, "stream": True, "guided_regex": "(long %d )*!{2000}" % i}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        check(r.status == 200, "%d: %s" % (i, r.status))
        streams.append((c, r))
    return streams


def test_busy(s, places):
    """As many grammars as are planned are in use by answers that nobody reads: another one has to wait."""
    for _ in range(50):  # on a busy machine an answer may be complete before the next request comes
        streams = answers_unread(s, int(places))
        r = s.ask("/v1/completions", {**BASE, "guided_regex": "another"})
        busy = r.status == 503
        if busy:
            explains(r, "guided_regex", "server.grammars")
            check(r.headers["Retry-After"], "no Retry-After")
        for c, stream in streams:
            stream.close()
            c.close()
        s.idle()
        if busy:
            break
    else:
        raise Wrong("no request was refused")
    check(s.post("/v1/completions", guided_regex="another", **BASE).json()["choices"][0]["text"] == "another", "a place is free again")


def test_none(s):
    refused(s, {"guided_regex": "a"}, 400, "guided_regex", "server.grammars")


def test_spaces(s):
    """With server.json_whitespace = "free" some answers have blanks; all are valid."""
    texts = [s.post("/v1/completions", seed=i, **BASE, json_schema=LIST).json()["choices"][0]["text"] for i in range(8)]
    for text in texts:
        valid(text, LIST)
    check(any(re.search(r"\s", text) for text in texts), "no blank: %s" % texts)


def test_reasoning(s):
    """The server's model thinks first; the grammar begins behind that."""
    got = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], temperature=0, max_tokens=200,
                 response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": PERSON}}).json()["choices"][0]
    check(got["message"]["reasoning_content"].strip() == "Hm.", "reasoning: %s" % got)
    valid(got["message"]["content"], PERSON)
    got = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], temperature=0, max_tokens=200,
                 grammar='root ::= "<" [a-c]{3} ">"').json()["choices"][0]
    check(got["message"]["reasoning_content"].strip() == "Hm." and re.fullmatch("<[a-c]{3}>", got["message"]["content"]), "GBNF: %s" % got)
    got = s.post("/v1/responses", input="x", temperature=0, text={"format": {"type": "json_schema", "name": "n", "schema": PERSON}}).json()
    valid([o for o in got["output"] if o["type"] == "message"][0]["content"][0]["text"], PERSON)
    got = s.post("/v1/messages", messages=[{"role": "user", "content": "x"}], temperature=0, max_tokens=200,
                 output_format={"type": "json_schema", "schema": PERSON}).json()
    check([b["type"] for b in got["content"]] == ["thinking", "text"], str(got))
    valid(got["content"][1]["text"], PERSON)


def test_budget(s):
    """Reasoning that the model has opened ends at its budget, and the grammar begins."""
    got = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], temperature=0, max_tokens=200, reasoning_budget_tokens=1,
                 json_schema=PERSON).json()["choices"][0]
    check(got["message"]["reasoning_content"].strip() == "Hm", "reasoning: %s" % got)
    valid(got["message"]["content"], PERSON)


TOOLS = [{"type": "function", "function": {"name": "register", "parameters": PERSON}},
         {"type": "function", "function": {"name": "pair", "parameters": {"properties": {"p": {"$ref": "#/$defs/p"}}, "required": ["p"],
                                                                        "additionalProperties": False, "$defs": {"p": {"enum": ["one", "two"]}}}}},
         {"type": "function", "function": {"name": "stop"}}]
SCHEMAS = {t["function"]["name"]: t["function"].get("parameters", {"type": "object", "maxProperties": 0}) for t in TOOLS}


def test_calls(s, refused_in="tool_choice"):
    """A call that the client demands comes in the model's own syntax, with arguments that its schema allows."""
    base = dict(messages=[{"role": "user", "content": "x"}], tools=TOOLS, max_tokens=400)
    for choice in ["required"] + [{"type": "function", "function": {"name": name}} for name in SCHEMAS]:
        for seed in range(3):
            got = s.post("/v1/chat/completions", tool_choice=choice, parallel_tool_calls=False, temperature=seed, seed=seed, **base)
            got = got.json()["choices"][0]
            calls = got["message"].get("tool_calls") or []
            check(got["finish_reason"] == "tool_calls" and len(calls) == 1, "%s: %s" % (choice, got))
            function = calls[0]["function"]
            check(choice == "required" or function["name"] == choice["function"]["name"], "%s: %s" % (choice, got))
            valid(function["arguments"], SCHEMAS[function["name"]])
            check(not (got["message"]["content"] or "").strip(), "text beside the call: %s" % got)
    got = s.post("/v1/messages", messages=base["messages"], max_tokens=400, temperature=0, tool_choice={"type": "tool", "name": "register"},
                 tools=[{"name": "register", "input_schema": PERSON}]).json()
    check(got["content"][-1]["type"] == "tool_use", str(got))
    valid(json.dumps(got["content"][-1]["input"]), PERSON)
    got = s.post("/v1/responses", input="x", temperature=0, tool_choice={"type": "function", "name": "register"},
                 tools=[{"type": "function", "name": "register", "parameters": PERSON}]).json()
    valid([o for o in got["output"] if o["type"] == "function_call"][0]["arguments"], PERSON)

    def refused_chat(fields, param, *says):
        r = s.ask("/v1/chat/completions", {**base, **fields})
        check(r.status == 400, "%s: %d %s" % (fields, r.status, r.body[:300]))
        error = r.json()["error"]
        check(error["param"] == param and all(word in error["message"] for word in says), "%s: %s" % (fields, error))

    refused_chat({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice", "other")
    refused_chat({"tool_choice": "sometimes"}, "tool_choice", "required")
    refused_chat({"tool_choice": "required", "tools": []}, "tool_choice", "missing")
    refused_chat({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}]}, refused_in,
                 '"not"')
    refused_chat({"guided_regex": "a"}, "guided_regex", "tools")
    refused_chat({"tools": strict(TOOLS[:1]) + strict([{"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}])}, "tools",
                 '"not"')


def strict(tools):
    return [{"type": "function", "function": {**t["function"], "strict": True}} for t in tools]


def test_strict_calls(s, opener, several="yes"):
    """With "auto" the model says what it likes until it opens a call, whose arguments then match if the tool is strict."""
    base = dict(messages=[{"role": "user", "content": "x"}], max_tokens=400, temperature=0)
    for tools in (strict(TOOLS), strict(TOOLS[1:2]) + TOOLS[2:], strict(TOOLS[:1])):
        got = s.post("/v1/chat/completions", tools=tools, parallel_tool_calls=False, **base).json()["choices"][0]
        calls = got["message"].get("tool_calls") or []
        check(got["finish_reason"] == "tool_calls" and len(calls) == 1, str(got))
        check(got["message"]["content"].strip() == "Well", "content: %s" % got)
        name = calls[0]["function"]["name"]
        check(name in [t["function"]["name"] for t in tools], str(got))
        valid(calls[0]["function"]["arguments"], SCHEMAS[name])
    got = s.post("/v1/chat/completions", tools=TOOLS, **base).json()["choices"][0]
    check(not got["message"].get("tool_calls"), "no tool is strict: %s" % got)
    got = s.post("/v1/responses", input="x", temperature=0, tools=[{"type": "function", "name": "register", "parameters": PERSON, "strict": True}])
    valid([o for o in got.json()["output"] if o["type"] == "function_call"][0]["arguments"], PERSON)
    got = s.post("/v1/messages", messages=base["messages"], max_tokens=400, temperature=0,
                 tools=[{"name": "register", "input_schema": PERSON, "strict": True}]).json()
    valid(json.dumps([o for o in got["content"] if o["type"] == "tool_use"][0]["input"]), PERSON)
    # A schema for the answer leaves calls allowed.
    base.update(tools=TOOLS, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": LIST}})
    bias = {}
    more = dict(base)
    for text in ("[", opener):
        ids = s.post("/tokenize", content=text, parse_special=True).json()["tokens"]
        check(len(ids) == 1, "%s is no token: %s" % (text, ids))
        bias[text] = {str(ids[0]): 50}
    # One call behind the other, up to max_tokens.
    got = s.post("/v1/chat/completions", **{**more, "tools": strict(TOOLS[1:2]), "logit_bias": bias[opener]}).json()["choices"][0]
    calls = got["message"]["tool_calls"]
    check(several == "no" or len(calls) > 2, str(got))
    for call in calls[:-1]:
        valid(call["function"]["arguments"], SCHEMAS["pair"])
    got = s.post("/v1/chat/completions", logit_bias=bias["["], **base).json()["choices"][0]
    valid(got["message"]["content"], LIST)
    got = s.post("/v1/chat/completions", **{**base, "tools": strict(TOOLS[1:2]), "logit_bias": bias[opener], "parallel_tool_calls": False}).json()
    got = got["choices"][0]
    check(got["finish_reason"] == "tool_calls" and not got["message"]["content"], str(got))
    valid(got["message"]["tool_calls"][0]["function"]["arguments"], SCHEMAS["pair"])


def test_values_in_tags(s):
    """Texts stand as they are between tags, whatever their schema; what can't be told apart is refused."""
    def call(parameters, **more):
        tools = strict([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
        return s.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": tools, "max_tokens": 400,
                                              "tool_choice": "required", "parallel_tool_calls": False, **more})

    for schema in ({"type": "string", "pattern": '^[a-c"<]{2,9}$'}, {"type": ["string", "null"], "maxLength": 4}, {"type": "boolean"},
                   {"anyOf": [{"enum": ["a\nb", "\n"]}, {"type": "null"}]}, {"type": "array", "items": {"enum": ["<x>", 2]}, "maxItems": 3},
                   {"type": "string", "format": "date"}, {"const": "</b>"}, {"type": "object", "properties": {"a": {"type": "null"}},
                                                                             "additionalProperties": False}):
        parameters = {"type": "object", "properties": {"k": schema, "n": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["k"]}
        for seed in range(3):
            r = call(parameters, temperature=1.5, seed=seed)
            check(r.status == 200, "%s: %s" % (schema, r.body))
            got = r.json()["choices"][0]
            check(got["finish_reason"] == "tool_calls", "%s: %s" % (schema, got))
            valid(got["message"]["tool_calls"][0]["function"]["arguments"], parameters)
    for parameters, why in (({"properties": {"k": {"anyOf": [{"type": "string"}, {"type": "integer", "maximum": 3}]}}}, "another type"),
                            ({"minProperties": 1}, "minProperties"), ({"properties": {"a b": {}}}, "characters"),
                            ({"required": ["k"]}, "none of its properties")):
        r = call(parameters)
        check(r.status == 400 and r.json()["error"]["param"] == "tools" and why in r.json()["error"]["message"], "%s: %s" % (parameters, r.body))


def test_channel_calls(s, how):
    """gpt-oss: calls are messages. The model reasons first, or opens a call by itself."""
    base = dict(messages=[{"role": "user", "content": "x"}], max_tokens=400, temperature=0)
    fields = {"required": {"tool_choice": "required", "tools": TOOLS[1:2]}, "auto": {"tools": strict(TOOLS[1:2])},
              "format": {"tools": TOOLS[1:], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["a", "b"]}}}}}
    if how == "format":  # neither of the two ways in which a header can name a function
        base["logit_bias"] = {str(s.post("/tokenize", content=text).json()["tokens"][0]): -100 for text in " c"}
    got = s.post("/v1/chat/completions", **base, **fields[how]).json()["choices"][0]
    if how == "format":
        check(got["message"]["content"] in ('"a"', '"b"') and got["message"]["reasoning_content"] == "Hm", str(got))
        return
    check(got["finish_reason"] == "tool_calls" and len(got["message"]["tool_calls"]) == 1, str(got))
    valid(got["message"]["tool_calls"][0]["function"]["arguments"], SCHEMAS["pair"])
    check(got["message"].get("reasoning_content") == "Hm" if how == "required" else not got["message"].get("content"), str(got))
    if how == "auto":
        got = s.post("/v1/chat/completions", **base, tools=TOOLS[1:2]).json()["choices"][0]
        check(not got["message"].get("tool_calls"), "no tool is strict: %s" % got)


def test_other_calls(s):
    tools = TOOLS[:1]
    r = s.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": tools, "tool_choice": "required"})
    check(r.status == 400 and r.json()["error"]["param"] == "tool_choice" and "as code" in r.json()["error"]["message"], r.body)
    r = s.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": strict(tools), "max_tokens": 4})
    check(r.status == 200 and "tools.function.strict" in r.headers["X-Stator-Ignored"], "%s %s" % (r.headers, r.body))


def main():
    name, args = sys.argv[1], sys.argv[2:]
    try:
        globals()["test_" + name](Server(*args[:3]), *args[3:])
    except (Wrong, OSError, ValueError) as e:
        print("%s: %s" % (name, e))
        return 1
    except Exception as e:  # of the validator
        print("%s: %s: %s" % (name, type(e).__name__, e))
        return 1
    if jsonschema is None:
        print("without python3-jsonschema: answers are only read as JSON")
    return 0


if __name__ == "__main__":
    sys.exit(main())
