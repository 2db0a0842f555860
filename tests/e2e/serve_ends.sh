# How a server ends: running requests at SIGTERM, and a device that fails.
. tests/lib.sh
. tests/lib_gpu.sh
. tests/lib_serve.sh

# ask JSON: a completion.
ask() {
    raw 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "${#1}" "$1"
}

# A long answer in the background, into $tmp/long.
begin_long() {
    local body='{"prompt":"Once upon a time","max_tokens":500,"ignore_eos":true,"stream":true}' n
    exec 6<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body" >&6
    for ((n = 0; n < 100; n++)); do
        get /slots
        ! grep -q '"running":1' "$tmp/answer" || return 0
    done
    fail "it does not run: $(cat "$tmp/answer")"
}

test_sigterm_lets_requests_end() {
    serve --set cpu.tier=scalar --set cpu.threads=1
    ready
    begin_long
    kill -TERM $pid
    timeout 120 cat <&6 >"$tmp/long"
    exec 6>&-
    grep -q '"finish_reason":"length"' "$tmp/long" || fail "the running answer is not complete: $(tail -c 300 "$tmp/long")"
    grep -q '^data: \[DONE\]' "$tmp/long" || fail "no end: $(tail -c 300 "$tmp/long")"
    ends 0
}

# Not longer than request_timeout.
test_sigterm_cuts_what_takes_too_long() {
    serve --set cpu.tier=scalar --set cpu.threads=1 --set server.request_timeout=1 --set memory.batch=1
    ready
    begin_long
    kill -TERM $pid
    timeout 120 cat <&6 >"$tmp/long"
    exec 6>&-
    ends 0
}

# A client that leaves is cancelled.
test_vanished_client() {
    local n
    serve --set cpu.tier=scalar --set cpu.threads=1
    ready
    begin_long
    exec 6>&-
    for ((n = 0; n < 100; n++)); do
        get /slots
        ! grep -q '"running":0' "$tmp/answer" || break
        sleep 0.05
    done
    answered 200 '"running":0'
    get /metrics
    answered 200 '^stator_requests_cancelled_total 1$'
    answered 200 '^stator_http_clients_gone_total 1$'
}

# faulty ARGUMENT...: a server on the software driver whose GPU is lost in a kernel of a request.
faulty() {
    expect_gpu 0 '' "$stator" run configs/demo-gpu.cfg -p "$prompt" --temp 0 -n 2
    local closes
    closes=$(total zeCommandListClose)
    serve_config=configs/demo-gpu.cfg
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small,fault=zeCommandListClose@$closes:mark:sealed,fault=exec.kernel@sealed/600:lost")
    serve "$@"
    ready
    ask '{"prompt":"Once upon a time","max_tokens":200,"temperature":0}'
}

test_a_lost_device_ends_the_server() {
    need_driver
    faulty
    answered 500 'the device is lost|device'
    ends 5
    grep -q 'the device is lost' "$tmp/serve.err" || fail "the log does not say why: $(tail -5 "$tmp/serve.err")"
}

test_a_server_that_stays() {
    need_driver
    faulty --set 'server.on_fault="stay"'
    answered 500
    get /health
    answered 503 '"status":"fault","message":".*the device is lost'
    ask '{"prompt":"a"}'
    answered 503 'a device has failed'
    get /metrics
    answered 200 '^stator_fault 1$'
    kill -TERM $pid
    ends 5
}

run_tests
