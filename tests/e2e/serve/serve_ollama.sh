#!/bin/bash
# Ollama's API: exact answers, lines and errors (tests/clients/ollama_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/ollama_client.py

# The prompt as it is, so that `stator run` says what comes.
story() {
    printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/plain"
    serve memory.context=512 memory.sequences=2 "chat.template=$tmp/plain" "$@"
}

test_answers_are_run() {
    need_python
    story
    client text
    client loads
    client format
    client errors
    ends
}

test_calls() {
    need_python
    script '<think>' 'Let me ' 'see.' '</think>' 'I will ' 'look.' '<tool_call>' '{"name": "weather", ' '"arguments": {"city": ' \
        '"Rome"}}' '</tool_call>'
    client call
    ends
}

test_model() {
    need_python
    story server.strict_model=true 'server.alias=coder, big model'
    client model
    ends
}

run_tests
