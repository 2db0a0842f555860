#!/bin/bash
# What agents and frameworks send, and how much of it may be there (tests/tolerant_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/tolerant_client.py

test_fields() {
    need_python
    serve memory.context=256 memory.sequences=2
    client fields
    client stop_ids
    client max_tokens 256
    grep -q 'ignored fields: frobnicate, thinking$' "$tmp/serve.err" || fail "no log line names what was ignored"
    ends
}

test_strict() {
    need_python
    serve memory.context=256 server.unknown_fields=refuse server.max_tokens=refuse server.strict_model=true \
        'server.alias=coder, big model'
    client strict
    ends
}

run_tests
