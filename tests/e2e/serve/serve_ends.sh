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
    local body='{"prompt":"Once upon a time","max_tokens":'"$(sanitized && echo 40 || echo 500)"',"ignore_eos":true,"stream":true}' n
    exec 6<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body" >&6
    for ((n = 0; n < 600; n++)); do
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
    cat <&6 >"$tmp/long" # tests/run ends what never ends
    exec 6>&-
    grep -q '"finish_reason":"length"' "$tmp/long" || fail "the running answer is not complete: $(tail -c 300 "$tmp/long")"
    grep -q '^data: \[DONE\]' "$tmp/long" || fail "no end: $(tail -c 300 "$tmp/long")"
    ends 0
}

# Until the last request has ended, others are told that the server ends. One whose body is not there yet keeps it from ending.
test_clients_of_a_drain_get_503() {
    serve
    ready
    exec 6<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"prompt":' >&6
    get /health # the server has read what came before
    answered 200
    kill -TERM $pid
    while get /health && [ "$status" = 200 ]; do :; done # tests/run ends what never ends
    answered 503 '"status":"draining","message":"the server is shutting down"'
    grep -q '^Retry-After: 1' "$tmp/answer" || fail "no Retry-After"
    ask '{"prompt":"a"}'
    answered 503 'the server is shutting down \(GET /health says why\)'
    get /v1/models
    answered 200 '"id":"stator demo"'
    printf '"a"}' >&6
    timeout 60 cat <&6 >"$tmp/long"
    exec 6>&-
    grep -q '^HTTP/1.1 503' "$tmp/long" || fail "the one that had begun: $(cat "$tmp/long")"
    grep -q 'the server is shutting down"' "$tmp/long" || fail "the one that had begun: $(cat "$tmp/long")"
    ends 0
}

# Not longer than request_timeout.
test_sigterm_cuts_what_takes_too_long() {
    local body='{"prompt":"Once upon a time","max_tokens":1000,"ignore_eos":true,"stream":true}'
    serve --set cpu.tier=scalar --set cpu.threads=1 --set server.request_timeout=1 --set memory.batch=1
    ready
    exec 6<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body" >&6
    read -r -t 60 <&6 || fail "no answer begins" # it runs, or its second is over
    kill -TERM $pid
    timeout 120 cat <&6 >"$tmp/long"
    exec 6>&-
    ends 0
    grep -q '{"error":{"message":"\(the server is shutting down\|the request took longer than 1 seconds\)' "$tmp/long" || fail "the cut answer ends with: $(tail -c 300 "$tmp/long")"
    ! grep -q 'DONE' "$tmp/long" || fail "it is said to be complete"
}

# A template that takes as long as it may: about a second of steps.
slow_template() {
    printf '%s' '{% for a in range(3000) %}{% for b in range(3000) %}{% if a * b < 0 %}x{% endif %}{% endfor %}{% endfor %}' >"$tmp/slow.jinja"
    serve --set "chat.template=$tmp/slow.jinja"
    ready
}

# begin_chat PATH [TEXT]: its answer is to be read from descriptor 6. A longer text may take more steps.
begin_chat() {
    local body='{"messages":[{"role":"user","content":"'${2:-Hello}'"}]}'
    exec 6<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "$1" ${#body} "$body" >&6
}

# While a template runs, others are answered; then its own client, and one that waited behind it. On a busy machine a template may be
# over too soon, so it has five tries.
test_others_are_answered_while_a_template_runs() {
    local n silent=
    slow_template
    for ((n = 0; n < 5; n++)); do
        begin_chat /v1/chat/completions "$(head -c 400000 /dev/zero | tr '\0' a)"
        exec 5<>"/dev/tcp/127.0.0.1/$port"
        printf 'POST /apply-template HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 48\r\n\r\n%s' \
            '{"messages":[{"role":"user","content":"Hello"}]}' >&5
        get /health
        answered 200
        ask '{"prompt":"Once","max_tokens":1}'
        answered 200
        read -r -t 0 <&6 || silent=1
        timeout 120 cat <&6 >"$tmp/answer"
        grep -q 'takes more than' "$tmp/answer" || fail "the template's client: $(tail -c 300 "$tmp/answer")"
        timeout 120 cat <&5 >"$tmp/answer"
        grep -q 'takes more than' "$tmp/answer" || fail "the one behind it: $(tail -c 300 "$tmp/answer")"
        exec 5>&- 6>&-
        [ -z "$silent" ] || break
    done
    [ -n "$silent" ] || fail "/health waited for the template five times"
    kill -TERM $pid
    ends 0
}

# The client of a template that runs leaves, and the one that waits behind it: a third is answered.
test_clients_leave_while_a_template_runs() {
    slow_template
    begin_chat /v1/chat/completions
    get /health
    answered 200
    exec 5>&6 6>&-
    begin_chat /apply-template
    exec 5>&- 6>&-
    begin_chat /apply-template
    timeout 120 cat <&6 >"$tmp/answer"
    grep -q 'takes more than' "$tmp/answer" || fail "the third client: $(tail -c 300 "$tmp/answer")"
    exec 6>&-
    kill -TERM $pid
    ends 0
}

# SIGTERM ends a template that runs.
test_sigterm_ends_a_template() {
    slow_template
    begin_chat /v1/chat/completions "$(head -c 400000 /dev/zero | tr '\0' a)"
    get /health
    answered 200
    kill -TERM $pid
    timeout 120 cat <&6 >"$tmp/answer"
    exec 6>&-
    grep -q 'the server is asked to end' "$tmp/answer" || fail "the answer is: $(tail -c 300 "$tmp/answer")"
    ends 0
}

# A client that leaves is cancelled.
test_vanished_client() {
    local n
    serve --set cpu.tier=scalar --set cpu.threads=1
    ready
    begin_long
    exec 6>&-
    for ((n = 0; n < 600; n++)); do
        get /slots
        ! grep -q '"running":0' "$tmp/answer" || break
        sleep 0.05
    done
    answered 200 '"running":0'
    get /metrics
    answered 200 '^stator_requests_cancelled_total 1$'
    answered 200 '^stator_http_clients_gone_total 1$'
}

# So is one that has sent so much behind its request that the server reads no more of it.
test_vanished_behind_a_full_buffer() {
    command -v python3 >/dev/null || skip "no python3"
    local n
    serve --set cpu.tier=scalar --set cpu.threads=1
    ready
    python3 - "$port" <<'END' || fail "the client failed"
import json, socket, sys, urllib.request
port = int(sys.argv[1])
body = json.dumps({"prompt": "Once", "max_tokens": 1000, "ignore_eos": True}).encode()
s = socket.create_connection(("127.0.0.1", port))
s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
while not json.load(urllib.request.urlopen("http://127.0.0.1:%d/slots" % port))["requests"]:
    pass
s.close()
END
    for ((n = 0; n < 600; n++)); do
        get /slots
        ! grep -q '"running":0' "$tmp/answer" || break
        sleep 0.05
    done
    get /metrics
    answered 200 '^stator_requests_cancelled_total 1$'
}

# faulty ARGUMENT...: a server on the software driver whose GPU is lost in a kernel of a request.
faulty() {
    expect_gpu 0 '' "$stator" run configs/demo-gpu.cfg -p "$prompt" --temp 0 -n 2
    local closes
    closes=$(total zeCommandListClose)
    serve_config=configs/demo-gpu.cfg
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small,fault=zeCommandListClose@$closes:mark:sealed,fault=exec.kernel@sealed/600:${how:-lost}")
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

# told: reads what systemd would be told into $tmp/told, before each line the time when it was sent (by the kernel, whenever we read
# it); its pid is in $reader.
told() {
    python3 -c '
import socket, struct, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 35, 1) # SO_TIMESTAMPNS
s.bind(sys.argv[1])
s.settimeout(60)
while True:
    text, more = s.recvmsg(4096, 256)[:2]
    text = text.decode()
    print("%d.%09d" % struct.unpack("ll", more[0][2]) if more else time.time(), text, flush=True)
    if "STOPPING=1" in text:
        break
' "$tmp/socket" >"$tmp/told" &
    reader=$!
    local n
    for ((n = 0; n < 600; n++)); do [ -S "$tmp/socket" ] && break; sleep 0.1; done
}

# long_step STATUS: a prompt whose only step takes long; back when /health has said that it is so late. Its answer is to be read from
# descriptor 6. A fast machine may end the step before, so there are five tries.
long_step() {
    local body k
    for k in 1 2 3 4 5; do
        body="{\"prompt\":\"$k $(printf 'word %.0s' $(seq "$(sanitized && echo 8 || echo 150)"))\",\"max_tokens\":1}"
        exec 6<>"/dev/tcp/127.0.0.1/$port"
        printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body" >&6
        get /health
        while ! grep -q "\"status\":\"$1\"" "$tmp/answer" && ! read -r -t 0 <&6; do get /health; done
        ! grep -q "\"status\":\"$1\"" "$tmp/answer" || break
    done
}

# A step that takes longer than a tenth of devices.deadline: /health says so.
test_late() {
    serve --set cpu.tier=scalar --set cpu.threads=1 --set memory.batch=1024 --set devices.deadline=1
    ready
    long_step late
    answered 503 '"status":"late","message":"a step has been in flight for [0-9.]+ s \(devices.deadline is 1.0 s\)","running":1'
    timeout 60 cat <&6 >"$tmp/long"
    exec 6>&-
    grep -q '^HTTP/1.1 200' "$tmp/long" || fail "$(cat "$tmp/long")"
    get /health
    answered 200 '"status":"ok"'
    kill -TERM $pid
    ends 0
}

# A step that takes longer than devices.deadline: /health says so, the watchdog gets no sign of life, and afterwards all is well.
test_stuck() {
    command -v python3 >/dev/null || skip "python3 is missing (make setup-test)"
    told
    export NOTIFY_SOCKET=$tmp/socket WATCHDOG_USEC=1000000
    serve --set cpu.tier=scalar --set cpu.threads=1 --set memory.batch=1024 --set devices.deadline=0.1
    unset NOTIFY_SOCKET WATCHDOG_USEC
    ready
    local stuck ok asked n
    long_step stuck
    answered 503 '"status":"stuck","message":"a step has been in flight for [0-9.]+ s \(devices.deadline is 0.1 s\)","running":1'
    stuck=$(date +%s.%N) ok=0
    while :; do # tests/run ends what never ends
        asked=$(date +%s.%N) # after the answer, on a busy machine, the step may have ended
        get /health
        [ "$status" != 503 ] || ok=$asked
        [ "$status" = 503 ] || break
    done
    answered 200 '"status":"ok"'
    timeout 60 cat <&6 >"$tmp/long"
    exec 6>&-
    grep -q '^HTTP/1.1 200' "$tmp/long" || fail "$(cat "$tmp/long")"
    # On a fast machine all of that takes less than half of WATCHDOG_USEC.
    for ((n = 0; n < 600; n++)); do ! grep -q 'WATCHDOG=1' "$tmp/told" || break; sleep 0.1; done
    kill -TERM $pid
    ends 0
    wait $reader
    # Between the first 503 and the last one nothing is told.
    awk -v from="$stuck" -v to="$ok" '$2 == "WATCHDOG=1" && $1 > from && $1 < to { n++ } END { exit n > 0 }' "$tmp/told" ||
        fail "signs of life while a step is stuck from $stuck to $ok: $(cat "$tmp/told")"
    grep -q 'WATCHDOG=1' "$tmp/told" || fail "no sign of life at all"
}

# slow RATE: the driver copies no more bytes a second; there are 6 million.
slow() {
    serve_config=configs/demo-gpu.cfg
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small,host_rate=$1")
    serve
}

# Loading: 503 with the reason, from /health and for requests; what needs no weights answers. SIGTERM meanwhile is an orderly end.
test_loading() {
    need_driver
    local n
    slow 300KB
    get /health
    answered 503 '"status":"loading","message":"the model is being loaded"'
    grep -q '^Retry-After: 1' "$tmp/answer" || fail "no Retry-After"
    ask '{"prompt":"a"}'
    answered 503 'the model is being loaded; try again'
    get /plan
    answered 503 'the model is being loaded'
    get /v1/models
    answered 200 '"id":"stator demo"'
    get /metrics
    answered 200 '^stator_ready 0$'
    kill -TERM $pid
    ends 0
    # In the end it is ready, and until then it says so each time.
    slow 3MB
    for ((n = 0; n < 3000; n++)); do
        get /health
        [ "$status" != 200 ] || break
        answered 503 '"status":"loading"'
    done
    answered 200 '"status":"ok"'
    get /metrics
    answered 200 '^stator_ready 1$'
    kill -TERM $pid
    ends 0
}

# A kernel that never ends: "stuck" and then, past the deadline, the fault.
test_a_device_that_hangs() {
    need_driver
    how=hang faulty --set devices.deadline=2
    answered 500 'has not ended after 2.0 s'
    ends 5
    how=hang faulty --set devices.deadline=2 --set 'server.on_fault="stay"'
    answered 500 'has not ended after 2.0 s'
    get /health
    answered 503 '"status":"fault","message":".*has not ended after 2.0 s'
    kill -TERM $pid
    ends 5
}

run_tests
