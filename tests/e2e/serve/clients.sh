#!/bin/bash
# The npm packages that people use `stator serve` with, against a model that answers with reasoning, a text and a call (tests/clients).
. tests/lib.sh
. tests/serving.sh

# Not skip: the packages are in no group that the other tests need.
need_clients() {
    if ! command -v node >/dev/null || [ ! -d tests/clients/node_modules ]; then
        [ -z "${STATOR_CLIENTS_REQUIRE:-}" ] || fail "no clients here: run make setup-clients"
        echo "no clients here: run make setup-clients" >"$tmp/.skip"
        exit 0
    fi
}

begin() {
    need_clients
    script '<think>' 'Let me ' 'see.' '</think>' 'I will ' 'look.' '<tool_call>' '{"name": "weather", ' '"arguments": {"city": ' \
        '"Rome"}}' '</tool_call>'
}

# with SCRIPT: until it ends well. asked SCRIPT: with the server that runs.
with() {
    begin
    asked "$1"
}
asked() {
    timeout 300 node "tests/clients/$1.mjs" "$port" >"$tmp/client.out" 2>"$tmp/client.err" ||
        fail "$(tail -c 1500 "$tmp/client.out" | tr '\n' ' ') $(tail -c 500 "$tmp/client.err" | tr '\n' ' ')"
    ends
}

test_anthropic_sdk() { with anthropic; }
test_openai() { with openai; }
test_ai_sdk() { with ai_sdk; }
test_langchain() { with langchain; }
test_ollama() { with ollama; }
test_embeddings() {
    need_clients
    serve model.pooling=last memory.context=256
    asked embeddings
}

test_several_models() {
    need_clients
    cat >"$tmp/two.cfg" <<END
models = ( { name = "chat"; path = "$PWD/configs/demo.gguf"; memory = { context = 256 } },
           { name = "embed"; path = "$PWD/configs/demo.gguf"; pooling = "last"; memory = { context = 128 } } )
END
    serve_config=$tmp/two.cfg serve
    asked models
}

run_tests
