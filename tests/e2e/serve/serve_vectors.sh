#!/bin/bash
# Embeddings and scores over HTTP: OpenAI's, llama-server's and Ollama's embeddings are those of `stator embed`; Jina's and
# text-embeddings-inference's rerank with a classifier and with the logits of yes and no (tests/clients/vectors_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/vectors_client.py

test_embeddings() {
    need_python
    serve model.pooling=last memory.context=512 memory.sequences=3 server.max_queue=4
    local t
    for t in embeddings ollama many errors; do client "$t"; done
    ends
}

# ranker FLAG..: a model whose rows have WIDTH values.
ranker() {
    echo '{{ messages }}' >"$tmp/template"
    python3 tests/models/script_model.py "$@" "$tmp/rank.gguf" "$tmp/template" yes no || fail "no model"
    serve "model.path=$tmp/rank.gguf" memory.context=256 memory.sequences=2
}

test_rerank() {
    need_python
    ranker --rank --classifier
    client rerank 320
    ends
    ranker --words --rank
    client yes_or_no 320
    ends
}

test_models_that_generate() {
    need_python
    serve memory.context=256
    client generates
    ends
}

run_tests
