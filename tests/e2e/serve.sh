# `stator serve` below the API: it listens while it loads, tells the truth about itself, ends as it should.
. tests/lib.sh
. tests/lib_serve.sh

test_views() {
    serve
    ready
    answered 200 '^\{"status":"ok","running":0,"waiting":0\}'
    get /v1/models
    answered 200 '"id":"stator demo","object":"model"'
    get /slots
    answered 200 '"sequences":1,"running":0,"waiting":0,.*"kv":\{"block_tokens":32,"blocks":32,"free":32'
    get /props
    answered 200 '"model":"stator demo".*"context":1024,.*"default_max_tokens":1024'
    get /metrics
    answered 200 '^stator_ready 1$'
    answered 200 '^stator_kv_blocks_free 32$'
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
    grep -q 'growth outside the plan' "$tmp/serve.err" || fail "no audit at the end"
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

run_tests
