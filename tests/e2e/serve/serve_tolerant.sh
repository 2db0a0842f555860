#!/bin/bash
# What agents and frameworks send, and how much of it may be there (tests/clients/tolerant_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/tolerant_client.py

test_fields() {
    need_python
    serve memory.context=256 memory.sequences=2
    client fields
    client stop_ids
    client max_tokens 256
    grep -q 'ignored fields: frobnicate, thinking$' "$tmp/serve.err" || fail "no log line names what was ignored"
    ends
}

test_last_message_goes_on() {
    need_python
    script ' and' '</think>' 'warm'
    client goes_on
    ends
}

# system WHERE CONDITION: the template refuses a system message where the condition holds.
system() {
    printf '%s' "{% for m in messages %}{% if m.role == 'system' and $2 %}{{ raise_exception('no system message here') }}{% endif %}" \
        '[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}' >"$tmp/system"
    serve memory.context=512 memory.sequences=2 "chat.template=$tmp/system"
    client system "$1"
    ends
}

test_late_system_message() {
    need_python
    system first 'not loop.first'
}

test_no_system_message() {
    need_python
    system nowhere true
}

test_strict() {
    need_python
    serve memory.context=256 server.unknown_fields=refuse server.max_tokens=refuse server.strict_model=true \
        'server.alias=coder, big model'
    client strict
    ends
}

run_tests
