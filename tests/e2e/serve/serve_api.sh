#!/bin/bash
# OpenAI's API over HTTP against a client of Python's standard library (tests/clients/api_client.py): what `stator run` says, errors, streams,
# clients that leave, and 64 of them that do what they like. STATOR_CHAOS_SECONDS: how long (8).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/api_client.py

test_answers() {
    need_python
    serve memory.context=1024 memory.sequences=4
    for t in completions seeds stop errors texts logprobs disconnects; do client "$t"; done
    ends
}

test_chats() {
    need_python
    need_shared templates
    local t
    for t in Qwen-Qwen3-0.6B Qwen3.5-4B Qwen-Qwen2.5-7B-Instruct; do
        serve memory.context=1024 memory.sequences=2 "chat.template=$(realpath "$shared/templates/$t.jinja")"
        client chats "$shared/templates/$t.jinja"
        ends
    done
}

test_chaos() {
    need_python
    serve memory.context=512 memory.sequences=8 server.max_queue=48 server.max_connections=128
    client chaos "${STATOR_CHAOS_SECONDS:-$(sanitized && echo 40 || echo 8)}" "$(sanitized && echo any || echo none)"
    ends
}

run_tests
