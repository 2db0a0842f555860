#!/bin/bash
# OpenAI's API over HTTP against a client of Python's standard library (tests/api_client.py): what `stator run` says, errors, streams,
# clients that leave, and 64 of them that do what they like. STATOR_CHAOS_SECONDS: how long (8).
. tests/lib.sh

# serve SET...: starts the server on a port of the system's choice; $port, $pid.
serve() {
    local n sets=()
    for n in "$@"; do sets+=(--set "$n"); done
    "$stator" serve configs/demo.cfg --set server.port=0 --set server.request_timeout=600 "${sets[@]}" >"$tmp/serve.out" 2>"$tmp/serve.err" &
    pid=$!
    trap 'kill "$pid" 2>/dev/null; wait "$pid"' EXIT
    for ((n = 0; n < 600; n++)); do
        port=$(sed -n 's/^listening on http:.*:\([0-9]*\)$/\1/p' "$tmp/serve.out")
        [ -n "$port" ] && curl_health && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    fail "it does not serve: $(tail -c 600 "$tmp/serve.err" | tr '\n' ' ')"
}
curl_health() {
    python3 -c "import http.client, sys
c = http.client.HTTPConnection('127.0.0.1', $port, timeout=10)
c.request('GET', '/health')
sys.exit(c.getresponse().status != 200)" 2>/dev/null
}

# client TEST [ARGUMENT...]
client() {
    local test=$1
    shift
    python3 tests/api_client.py "$test" "$port" "$pid" "$stator" "$@" >"$tmp/client.out" 2>&1 ||
        fail "$(tail -c 1500 "$tmp/client.out" | tr '\n' ' ')"
    sed 's/^/# /' "$tmp/client.out"
}

# ends: SIGTERM, and a clean end.
ends() {
    local rc=0
    kill -TERM "$pid"
    wait "$pid" || rc=$?
    trap - EXIT
    [ "$rc" = 0 ] || fail "exit $rc after SIGTERM: $(tail -c 600 "$tmp/serve.err" | tr '\n' ' ')"
}

test_answers() {
    command -v python3 >/dev/null || skip "no python3"
    serve memory.context=1024 memory.sequences=4
    for t in completions seeds stop errors texts logprobs disconnects; do client "$t"; done
    ends
}

test_chats() {
    command -v python3 >/dev/null || skip "no python3"
    need_shared templates
    local t
    for t in Qwen-Qwen3-0.6B Qwen3.5-4B Qwen-Qwen2.5-7B-Instruct; do
        serve memory.context=1024 memory.sequences=2 "chat.template=$(realpath "$shared/templates/$t.jinja")"
        client chats "$shared/templates/$t.jinja"
        ends
    done
}

test_chaos() {
    command -v python3 >/dev/null || skip "no python3"
    serve memory.context=512 memory.sequences=8 server.max_queue=48 server.max_connections=128
    client chaos "${STATOR_CHAOS_SECONDS:-$(sanitized && echo 40 || echo 8)}" "$(sanitized && echo any || echo none)"
    ends
}

run_tests
