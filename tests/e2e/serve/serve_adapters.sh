#!/bin/bash
# Anthropic's Messages and OpenAI's Responses: exact answers and events (tests/clients/adapters_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/adapters_client.py

call() {
    script '<think>' 'Let me ' 'see.' '</think>' 'I will ' 'look.' '<tool_call>' '{"name": "weather", ' '"arguments": {"city": ' \
        '"Rome", "n": 12345678901234567890}}' '</tool_call>'
}

# The prompt as it is, so that `stator run` says what comes.
story() {
    printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/plain"
    serve memory.context=512 memory.sequences=2 "chat.template=$tmp/plain" "$@"
}

test_answers_are_run() {
    need_python
    story
    client anthropic_text
    client responses_text
    ends
}

test_anthropic_calls() {
    need_python
    call
    client anthropic_call
    client anthropic_history
    grep -q 'ignored fields: tools.web_search_20250305$' "$tmp/serve.err" || fail "no log line names the tool that was dropped"
    ends
}

test_responses_calls() {
    need_python
    call
    client responses_call
    client responses_settings
    client responses_history
    client chat_arguments
    grep -q 'ignored fields: tools.web_search$' "$tmp/serve.err" || fail "no log line names the tool that was dropped"
    ends
}

test_anthropic_broken_call() {
    need_python
    script '<tool_call>' '{"name": "f", "arguments": {"a": ' '"b' 'c'
    client anthropic_broken
    ends
}

test_reasoning_budget() {
    need_python
    more=('server.reasoning_budget=1' 'server.reasoning_message= Enough.')
    call
    client budget ' Enough.'
    ends
}

test_reasoning_budget_of_channels() {
    need_python
    need_shared templates
    python3 tests/models/script_model.py --words "$tmp/script.gguf" "$shared/templates/openai-gpt-oss-120b.jinja" '<|channel|>' analysis '<|message|>' \
        'One ' 'two ' 'three.' '<|end|>' '<|start|>assistant<|channel|>final<|message|>Yes.' '+<|call|>' '+<|return|>' || fail "no model"
    serve "model.path=$tmp/script.gguf" memory.context=1024 memory.sequences=2 'server.reasoning_message= Enough.'
    client budget_channels ' Enough.'
    ends
}

test_anthropic_errors() {
    need_python
    echo secret >"$tmp/keys"
    chmod 600 "$tmp/keys"
    # Threads have larger stacks under ThreadSanitizer.
    story "server.api_key_file=$tmp/keys" server.max_body=65536 server.memory="$(sanitized && echo 24MiB || echo auto)"
    client anthropic_errors
    ends
}

run_tests
