# `stator serve` below the API: it listens while it loads, tells the truth about itself, ends as it should.
. tests/lib.sh
. tests/lib_serve.sh

test_views() {
    serve
    ready
    answered 200 '^\{"status":"ok","running":0,"waiting":0\}'
    get /v1/models
    answered 200 '"id":"stator demo","object":"model"'
    get /v1/models/stator%20demo
    answered 200 '^\{"id":"stator demo","object":"model"'
    get /v1/models/another
    answered 404 'there is no model \\"another\\" here: this server runs \\"stator demo\\"'
    get /slots
    answered 200 '"sequences":1,"running":0,"waiting":0,.*"kv":\{"block_tokens":32,"blocks":32,"free":32,"held":0,"reserved":0,'
    get /memory
    answered 200 '"arenas":\[\{"place":"cpu:0","arena":"weights","planned":6148096,'
    answered 200 '"caches":\[\{"name":"kv","kind":"paged","blocks":32,"block_tokens":32,"block_bytes":65536,"free":32,"cached":0,"held":0,"runs":\[\[32,"free"\]\]'
    answered 200 '"requests":\[\],"edge_pool":\{"bytes":[0-9]+,.*"audit":\{"age_ms":[0-9]+,"planned":[0-9]+,.*"wrong":"","gpus":\[\]'
    get /props
    answered 200 '"model":"stator demo".*"context":1024,.*"default_max_tokens":null,.*"max_body":4194304'
    answered 200 '"default_generation_settings":\{"n_ctx":1024,"params":\{"temperature":0.8,"top_k":40,.*"dry_penalty_last_n":-1,.*"n_predict":-1\}\},"total_slots":1,'
    answered 200 '"model_path":"[^"]*demo.gguf","modalities":\{"vision":false,"audio":false\},"build_info":"stator '
    get /metrics
    answered 200 '^stator_ready 1$'
    answered 200 '^stator_kv_blocks_free 32$'
    answered 200 '^stator_kv_blocks_reserved 0$'
    answered 200 '^stator_edge_pool_failures_total 0$'
    get /plan
    answered 200 '"hash": "[0-9a-f]{32}"'
    get /report
    answered 200 '"grown_since_seal_bytes"'
    get /none
    answered 404 '"message":"GET /none is not among what this server does","type":"not_found_error","param":null,"code":404'
    raw 'POST /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 405
    raw 'HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 200 '^Content-Length: 39'
    ! grep -q status "$tmp/answer" || fail "HEAD got a body"
    kill -TERM $pid
    ends 0
    grep -q '^request GET /slots: 200, ' "$tmp/serve.err" || fail "no log line: $(cat "$tmp/serve.err")"
    ! grep -q '^request GET /memory' "$tmp/serve.err" || fail "the page's figures fill the log"
    grep -q 'growth outside the plan' "$tmp/serve.err" || fail "no audit at the end"
}

# The page's files come without the key, with a policy, and are not sent again to who has them.
test_page() {
    local path tag
    echo a-key >"$tmp/keys"
    serve --set server.api_key_file="$tmp/keys"
    for path in / $(grep -oE '"/page[a-z_.]*"' src/server/page/page.html | tr -d '"' | sort -u) /page_code.js /page_map.js /page_store.js /page_text.js; do
        get $path
        answered 200 "^Content-Security-Policy: default-src 'none'; script-src 'self'; .*frame-ancestors 'none'"
        answered 200 '^X-Content-Type-Options: nosniff'
        answered 200 '^Referrer-Policy: no-referrer'
        answered 200 '^Cache-Control: no-cache'
        tag=$(sed -n 's/^ETag: \(.*\)\r$/\1/p' "$tmp/answer")
        sed '1,/^\r$/d' "$tmp/answer" | cmp - "src/server/page/$([ $path = / ] && echo page.html || echo ${path#/})" || fail "$path is another file"
        get $path "If-None-Match: $tag"
        answered 304
        [ -z "$(sed '1,/^\r$/d' "$tmp/answer")" ] || fail "304 has a body"
        get $path 'If-None-Match: "0123456789abcdef"'
        answered 200
    done
    ! grep -qE 'style=|<style|onclick|https?://' src/server/page/page.html || fail "the page has what its policy forbids"
    get /memory
    answered 401
    kill -TERM $pid
    ends 0
    serve --set server.page=false
    get /
    answered 404
    get /page.js
    answered 404
}

# The plan that is served has the hash that `stator plan --serve` prints, and may be insisted on.
test_expect_plan() {
    expect 0 "$stator" plan configs/demo.cfg --serve
    local hash
    hash=$(sed -n 's/^plan //p' "$tmp/out")
    serve --expect-plan "$hash"
    ready
    kill -INT $pid
    ends 0
    expect 3 "$stator" serve configs/demo.cfg --set server.port=0 --expect-plan 0123
    said 'the plan.s hash is'
}

test_refused_starts() {
    expect 2 "$stator" serve configs/demo.cfg --set server.host=0.0.0.0
    said 'can be reached from other machines: set server.api_key_file'
    expect 2 "$stator" serve configs/demo.cfg --set server.host=::
    said 'can be reached'
    expect 2 "$stator" serve configs/demo.cfg --set server.host=example.org
    said 'is no address'
    expect 2 "$stator" serve configs/demo.cfg --set server.api_key_file="$tmp/none"
    said "can't be read"
    : >"$tmp/empty"
    expect 2 "$stator" serve configs/demo.cfg --set server.api_key_file="$tmp/empty"
    said 'has no key'
    expect 3 "$stator" serve configs/demo.cfg --set server.port=0 --set server.memory=1MiB
    said 'server.memory is too small'
    expect 1 "$stator" serve configs/demo.cfg --set server.port=0 --set server.host=192.0.2.1 --set server.open=true
    said 'does not have that address'
    serve
    expect 1 "$stator" serve configs/demo.cfg --set server.port="$port"
    said 'another program has it'
    ready
}

# Other machines may come with a key, or where all are let in; both kinds of addresses.
test_addresses() {
    echo sesame >"$tmp/keys"
    serve --set server.host=0.0.0.0 --set server.api_key_file="$tmp/keys"
    grep -q 'listening on http://0.0.0.0:' "$tmp/serve.out" || fail "it listens on $(cat "$tmp/serve.out")"
    ready
    get /slots
    answered 401
    get /slots 'Authorization: Bearer sesame'
    answered 200
    kill -TERM $pid
    ends 0
    serve --set server.host=0.0.0.0 --set server.open=true
    ready
    get /slots
    answered 200
    kill -TERM $pid
    ends 0
    [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 || return 0
    serve --set server.host=::1
    grep -q 'listening on http://\[::1\]:' "$tmp/serve.out" || fail "it listens on $(cat "$tmp/serve.out")"
    address=::1 ready
    kill -TERM $pid
    ends 0
    serve --set server.host=:: --set server.open=true
    ready # IPv4 too
    address=::1 get /slots "X: [::1]:$port"
    answered 200
    kill -TERM $pid
    ends 0
}

# One line of JSON for each request, whatever becomes of it; and where none can be written the server goes on.
test_log() {
    command -v python3 >/dev/null || skip "python3 is missing (make setup-test)"
    serve --set log.format=json --set log.file="$tmp/log"
    ready
    local body='{"prompt":"Once upon a time","max_tokens":3,"ignore_eos":true,"temperature":0}'
    get /none
    raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body"
    answered 200
    raw 'nonsense\r\n\r\n'
    kill -TERM $pid
    ends 0
    python3 - "$tmp/log" <<'EOF' || fail "$(cat "$tmp/log")"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
requests = [l for l in lines if l.get("message") == "request"]
assert len([l for l in requests if l["path"] == "/none"]) == 1
assert len([l for l in requests if l["status"] == 400]) == 1
[one] = [l for l in requests if l["path"] == "/v1/completions"]
assert one["id"].startswith("cmpl-") and one["status"] == 200 and one["method"] == "POST" and one["complete"] is True
assert one["prompt_tokens"] > 1 and one["generated_tokens"] == 3 and one["cached_tokens"] == 0 and one["reason"] == "length"
assert 0 <= one["queue_seconds"] <= one["seconds"] and one["prompt_seconds"] > 0 and one["generate_seconds"] > 0
assert "Once" not in open(sys.argv[1]).read()
EOF
    serve_under=(bash -c 'exec "$@" 2>/dev/full' -)
    serve
    ready
    get /metrics
    answered 200 '^stator_log_lost_total [1-9]'
    kill -TERM $pid
    ends 0
    # A reader of the log that stands still holds up nobody; one that has left ends nothing.
    mkfifo "$tmp/pipe"
    exec 7<>"$tmp/pipe"
    serve_under=(bash -c 'exec "$@" 2>'"$tmp/pipe" -)
    serve
    ready
    local n
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    (for ((n = 0; n < 1500; n++)); do printf 'GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n'; done
     printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n') >&3 &
    timeout 300 cat <&3 >"$tmp/many"
    exec 3>&-
    n=$(grep -ao 'HTTP/1.1 404' "$tmp/many" | wc -l)
    [ $n = 1500 ] || fail "$n of 1500 answers"
    exec 7>&-
    get /metrics
    answered 200 '^stator_log_lost_total [1-9]'
    kill -TERM $pid
    ends 0
}

# What systemd is told: loading, ready, alive, stopping.
test_notify() {
    command -v python3 >/dev/null || skip "python3 is missing (make setup-test)"
    python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(60)
while True:
    text = s.recv(4096).decode()
    print(text, flush=True)
    if "STOPPING=1" in text:
        break
' "$tmp/socket" >"$tmp/told" &
    local reader=$! n
    for ((n = 0; n < 600; n++)); do [ -S "$tmp/socket" ] && break; sleep 0.1; done
    export NOTIFY_SOCKET=$tmp/socket WATCHDOG_USEC=1000000
    serve
    unset NOTIFY_SOCKET WATCHDOG_USEC
    ready
    for ((n = 0; n < 600; n++)); do sed -n '/^READY=1/,$p' "$tmp/told" | grep -q '^WATCHDOG=1' && break; sleep 0.1; done
    kill -TERM $pid
    ends 0
    wait $reader
    tr '\n' ' ' <"$tmp/told" | grep -qE 'READY=1 .*WATCHDOG=1 .*STOPPING=1' || fail "told: $(cat "$tmp/told")"
}

# The unit's limits, where the tool that judges them is.
test_unit() {
    local line
    for line in Type=notify DynamicUser=yes NoNewPrivileges=yes ProtectSystem=strict CapabilityBoundingSet= RestrictNamespaces=yes \
        DevicePolicy=closed "RestartPreventExitStatus=2 3 4"; do
        grep -qxF "$line" configs/stator.service || fail "no $line"
    done
    command -v systemd-analyze >/dev/null || return 0 # systemd's own judgement, where it is
    systemd-analyze security --offline=true --threshold=20 configs/stator.service >"$tmp/out" 2>&1 ||
        fail "$(tail -1 "$tmp/out")"
}

# A memory of the process that does not grow: thousands of requests after the seal leave no page behind.
test_no_growth() {
    sanitized && return
    serve
    ready
    local i
    for i in 1 2 3; do get /metrics; get /plan; get /report; get /slots; get /memory; get /page.js; get /props; done
    get /metrics
    local before=$(sed -n 's/^stator_host_private_bytes //p' "$tmp/answer")
    answered 200 '^stator_host_grown_bytes 0$'
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    (for i in $(seq 1000); do printf 'GET /plan HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /memory HTTP/1.1\r\nHost: localhost\r\n\r\nGET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n'; done
     printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n') >&3 &
    timeout 300 cat <&3 >"$tmp/many"
    exec 3>&-
    [ "$(grep -ac '^stator_ready 1' "$tmp/many")" = 1000 ] || fail "$(grep -ac '^stator_ready 1' "$tmp/many") of 1000 answers"
    get /metrics
    local after=$(sed -n 's/^stator_host_private_bytes //p' "$tmp/answer")
    echo "# private: $before before, $after after 4000 requests"
    [ "$after" = "$before" ] || fail "private memory has grown from $before to $after"
    answered 200 '^stator_host_grown_bytes 0$'
    answered 200 "^stator_edge_pool_peak_bytes [0-9]+"
    answered 200 "^stator_edge_pool_failures_total 0"
}

run_tests
