"""A client of /v1/embeddings, /v1/rerank and Ollama's /api/embed in Python's standard library, for tests/e2e/serve/serve_vectors.sh.
Usage: vectors_client.py TEST PORT PID STATOR [ARGUMENT...]; exit 1 and a line that says what is wrong."""
import base64
import json
import math
import os
import struct
import subprocess
import sys

from api_client import CONFIG, Server, Wrong, check

sys.path.append(os.path.join(os.path.dirname(__file__), "../models"))
from script_model import score_of

TEXTS = ["Once upon a time", "there was a frog", "caf\u00e9 \u4e2d \U0001f600", "x"]


def floats(v):
    """As f32, whatever digits stand for them."""
    return list(struct.unpack("<%df" % len(v), struct.pack("<%df" % len(v), *v)))


def decoded(text):
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack("<%df" % (len(data) // 4), data))


def embed(s, text, *more):
    """What `stator embed` says."""
    out = subprocess.run([s.stator, "embed", CONFIG, text, "--json", "--set", "model.pooling=last", *more], capture_output=True, check=True)
    return floats(json.loads(out.stdout)["embeddings"][0]["embedding"])


def vectors(reply, n):
    check(reply.status == 200, "%d %s" % (reply.status, reply.body[:300]))
    got = reply.json()
    check(got["object"] == "list" and len(got["data"]) == n, "not a list of %d: %s" % (n, str(got)[:300]))
    for i, item in enumerate(got["data"]):
        check(item["object"] == "embedding" and item["index"] == i, "item %d: %s" % (i, str(item)[:200]))
    check(got["usage"]["prompt_tokens"] == got["usage"]["total_tokens"] > 0, "usage: %s" % got["usage"])
    return [item["embedding"] for item in got["data"]]


def test_embeddings(s):
    want = [embed(s, text) for text in TEXTS]
    got = vectors(s.post("/v1/embeddings", model="any", input=TEXTS, user="u"), len(TEXTS))
    check([floats(v) for v in got] == want, "other embeddings than `stator embed` has")
    check(floats(vectors(s.post("/v1/embeddings", input=TEXTS[1]), 1)[0]) == want[1], "one text")
    coded = vectors(s.post("/v1/embeddings", input=TEXTS, encoding_format="base64"), len(TEXTS))
    check([decoded(v) for v in coded] == want, "base64 gives other embeddings")
    for n in (1, 2, 3, 7):
        want_n = embed(s, TEXTS[0], "--dimensions", str(n))
        check(decoded(vectors(s.post("/v1/embeddings", input=TEXTS[0], dimensions=n, encoding_format="base64"), 1)[0]) == want_n, "%d dimensions" % n)
        check(abs(sum(x * x for x in want_n) - 1) < 1e-5, "%d dimensions are not of length 1" % n)
    ids = [s.post("/tokenize", content=text, add_special=True).json()["tokens"] for text in TEXTS]
    check([floats(v) for v in vectors(s.post("/v1/embeddings", input=ids), len(ids))] == want, "arrays of ids")
    check(floats(vectors(s.post("/v1/embeddings", input=ids[2]), 1)[0]) == want[2], "an array of ids")
    plain = s.post("/embeddings", content=TEXTS[:2]).json()
    check([(item["index"], floats(item["embedding"][0])) for item in plain] == [(0, want[0]), (1, want[1])], "llama-server's form")
    used = s.post("/v1/embeddings", input=ids).json()["usage"]["prompt_tokens"]
    check(used == sum(map(len, ids)), "%d tokens are counted" % used)


def test_ollama(s):
    want = [embed(s, text) for text in TEXTS]
    got = s.post("/api/embed", model="any:latest", input=TEXTS, keep_alive="5m", options={"num_ctx": 4096}).json()
    check([floats(v) for v in got["embeddings"]] == want, "other embeddings than `stator embed` has")
    check(got["prompt_eval_count"] > 0 and got["total_duration"] > 0, str(got)[:200])
    check(len(s.post("/api/embed", model="m", input=TEXTS[0], dimensions=5).json()["embeddings"][0]) == 5, "dimensions")
    check(floats(s.post("/api/embeddings", model="m", prompt=TEXTS[1]).json()["embedding"]) == want[1], "/api/embeddings")
    long = "word " * 3000
    cut = s.post("/api/embed", model="m", input=long)
    check(cut.status == 200 and cut.json()["prompt_eval_count"] == 512, "a long text is cut to the context: %s" % cut.body[:200])
    kept = s.ask("/api/embed", {"model": "m", "input": long, "truncate": False})
    check(kept.status == 400 and "memory.context" in kept.json()["error"], "truncate false: %s" % kept.body[:200])
    check(s.post("/api/show", model="m").json()["capabilities"] == ["embedding"], "capabilities")
    check(s.ask("/api/embeddings", {"model": "m", "prompt": ["a"]}).status == 400, "a list of prompts")


def test_many(s):
    """More texts than the queue holds, an answer that is longer than one buffer, and a client that leaves."""
    texts = ["text number %d" % i for i in range(700)]
    got = vectors(s.post("/v1/embeddings", input=texts, encoding_format="base64"), len(texts))
    check(len(set(got)) == len(texts), "%d different embeddings of %d texts" % (len(set(got)), len(texts)))
    for i in (0, 350, 699):
        check(decoded(got[i]) == embed(s, texts[i]), "text %d" % i)
    numbers = vectors(s.post("/v1/embeddings", input=texts), len(texts))
    check([floats(v) for v in numbers] == [decoded(v) for v in got], "numbers and base64 differ")


def refused(s, path, body, status, param, says):
    r = s.ask(path, body)
    error = r.json()["error"]
    check(r.status == status and error["param"] == param and says in error["message"],
          "%s: expected %d, %s and \"%s\": %d %s" % (str(body)[:80], status, param, says, r.status, r.body))


def test_errors(s):
    path = "/v1/embeddings"
    refused(s, path, {}, 400, "input", "input is missing")
    refused(s, path, {"input": []}, 400, "input", "0 texts")
    refused(s, path, {"input": ["a"] * 2049}, 400, "input", "2049 texts")
    refused(s, path, {"input": 3}, 400, "input", "input is a number")
    refused(s, path, {"input": ["a", 3]}, 400, "input", "input[1] is a number")
    refused(s, path, {"input": ["a", "word " * 3000]}, 400, "input", "input[1]: 30")
    refused(s, path, {"input": [[1, 999999]]}, 400, "input", "token 1 of the prompt is 999999")
    refused(s, path, {"input": "a", "content": "b"}, 400, "content", "both there")
    refused(s, path, {"input": "a", "dimensions": 0}, 400, "dimensions", "from 1")
    refused(s, path, {"input": "a", "dimensions": 100000}, 400, "dimensions", "embeddings have")
    refused(s, path, {"input": "a", "encoding_format": "int8"}, 400, "encoding_format", "base64")
    refused(s, path, b"[", 400, None, "no JSON")
    refused(s, "/v1/rerank", {"query": "a", "documents": ["b"]}, 501, None, "no scores")
    refused(s, "/v1/completions", {"prompt": "x"}, 400, None, "generates no text")
    r = s.post(path, input="a", wonders=1)
    check(r.status == 200 and r.headers["X-Stator-Ignored"] == "wonders", "ignored: %s" % r.headers["X-Stator-Ignored"])


def test_generates(s):
    refused(s, "/v1/embeddings", {"input": "x"}, 501, None, "pooling_type")
    refused(s, "/v1/rerank", {"query": "a", "documents": ["b"]}, 501, None, "reranker is expected")


def norm(width):
    """What the script model's final norm makes of a 1 among zeros."""
    return 1 / math.sqrt(1 / int(width) + 1e-5)


def test_rerank(s, width):
    """The score of a document of the classifier follows from its last byte."""
    documents = ["abc", {"text": "a q"}, "mm", "zz", "\u00e9", "b"]
    raw = [score_of(b) * norm(width) for b in (99, 113, 109, 122, "\u00e9".encode()[-1], 98)]
    want = [1 / (1 + math.exp(-x)) for x in raw]
    order = sorted(range(len(want)), key=lambda i: (-want[i], i))
    for path in ("/v1/rerank", "/rerank"):
        got = s.post(path, model="any", query="which", documents=documents, return_documents=True).json()
        check([r["index"] for r in got["results"]] == order, "order: %s is not %s" % (got["results"], order))
        for r in got["results"]:
            check(abs(r["relevance_score"] - want[r["index"]]) < 1e-5, "%s: %g is expected" % (r, want[r["index"]]))
            check(r["document"]["text"] == (documents[r["index"]] if r["index"] != 1 else "a q"), str(r))
        check(got["usage"]["total_tokens"] > 0 and got["model"], str(got))
    got = s.post("/v1/rerank", query="which", documents=documents, top_n=2).json()["results"]
    check([r["index"] for r in got] == order[:2] and "document" not in got[0], str(got))
    got = s.post("/v1/rerank", query="which", documents=documents, top_n=100).json()["results"]
    check(len(got) == len(documents), str(got))
    got = s.post("/rerank", query="which", texts=["b", "z"], return_text=True).json()
    check([(r["index"], r["text"]) for r in got] == [(1, "z"), (0, "b")] and got[0]["score"] > got[1]["score"], str(got))
    path = "/v1/rerank"
    refused(s, path, {"documents": ["a"]}, 400, "query", "query is missing")
    refused(s, path, {"query": "a"}, 400, "documents", "documents is missing")
    refused(s, path, {"query": 1, "documents": ["a"]}, 400, "query", "query is a number")
    refused(s, path, {"query": "a", "documents": "b"}, 400, "documents", "an array of texts")
    refused(s, path, {"query": "a", "documents": ["b", {"title": "x"}]}, 400, "documents", "documents[1]")
    refused(s, path, {"query": "a", "documents": ["b"], "top_n": 0}, 400, "top_n", "from 1")
    refused(s, path, {"query": "a", "documents": ["b", "x" * 3000]}, 400, "documents", "documents[1]: 30")
    refused(s, "/v1/embeddings", {"input": "x"}, 501, None, "/v1/rerank")


def test_yes_or_no(s, width):
    """Without a classifier: after "yes" the model says no, after all else yes."""
    yes = 1 / (1 + math.exp(-norm(width)))
    got = s.post("/v1/rerank", query="which", documents=["x\nyes", "x"]).json()["results"]
    check([r["index"] for r in got] == [1, 0], str(got))
    check(abs(got[0]["relevance_score"] - yes) < 1e-6 and abs(got[1]["relevance_score"] - (1 - yes)) < 1e-6, "%s: %g is expected" % (got, yes))


if __name__ == "__main__":
    try:
        globals()["test_" + sys.argv[1]](Server(*sys.argv[2:5]), *sys.argv[5:])
    except Wrong as wrong:
        sys.exit(str(wrong))
