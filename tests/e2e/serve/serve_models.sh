# `stator serve` of a config with several models: each request gets the one that it names, and the answer that this one gives alone.
. tests/lib.sh
. tests/lib_serve.sh
. tests/lib_gpu.sh

# two [MORE-OF-CHAT [MORE-OF-EMBED [MORE-OF-THE-FILE]]]: the config. The second model has other weights than the first.
two() {
    [ -e "$tmp/other.gguf" ] || expect 0 "$stator" quantize configs/demo.gguf "$tmp/other.gguf" Q4_0
    cat >"$tmp/two.cfg" <<END
models = ( { name = "chat"; path = "$PWD/configs/demo.gguf"; memory = { context = 256; sequences = 2 }; ${1:-} },
           { name = "embed"; path = "${path:-$tmp/other.gguf}"; pooling = "last"; memory = { context = 128; batch = 32 }; ${2:-} } )
memory = { batch = 64; strict = $(sanitized && echo false || echo true) }
${3:-}
END
    serve_config=$tmp/two.cfg
}

# post PATH BODY
post() { raw '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' "POST $1 HTTP/1.1" 'Host: localhost' 'Connection: close' "Content-Length: ${#2}" "$2"; }
# ask MODEL: a completion; its text is in $tmp/said.
ask() {
    post /v1/completions "{${1:+\"model\": \"$1\", }\"prompt\": \"Once upon a time\", \"max_tokens\": 24, \"temperature\": 0, \"seed\": 1}"
    answered 200 '"model":"chat"'
    sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$tmp/answer" >"$tmp/said"
}
# vector MODEL: an embedding, in $tmp/vector.
vector() {
    post /v1/embeddings "{\"model\": \"$1\", \"input\": \"Once upon a time\"}"
    answered 200 "\"model\":\"embed\""
    grep -o '"embedding":\[[^]]*\]' "$tmp/answer" >"$tmp/vector"
}
metric() { sed -n "s/^$1 //p" "$tmp/answer"; }

test_answers_are_each_ones_own() {
    two
    serve --set model.name=chat
    ready
    ask
    cp "$tmp/said" "$tmp/chat"
    kill -TERM $pid
    ends 0
    serve --set model.name=embed
    ready
    vector embed
    cp "$tmp/vector" "$tmp/embed"
    kill -TERM $pid
    ends 0
    serve
    ready
    answered 200 '"models":\[\{"name":"chat","status":"ok"\},\{"name":"embed","status":"ok"\}\]'
    local n
    for n in 1 2 3 4 5; do
        ask chat
        cmp "$tmp/said" "$tmp/chat" || fail "another text beside the other model"
        vector embed
        cmp "$tmp/vector" "$tmp/embed" || fail "another embedding beside the other model"
    done
    ask '' # the first
    cmp "$tmp/said" "$tmp/chat" || fail "without a name it is not the first"
    post /v1/completions '{"model": "embed", "prompt": "x"}'
    answered 400 'generates no text'
    get '/metrics'
    answered 200 '^stator_requests_ended_total\{model="chat"\} 6'
    answered 200 '^stator_requests_ended_total\{model="embed"\} 5'
    [ "$(grep -c '^# TYPE stator_kv_blocks ' "$tmp/answer")" = 1 ] || fail "a metric has two TYPE lines"
    kill -TERM $pid
    ends 0
    grep -q 'models\[1\], "embed"' "$tmp/serve.err" || fail "no audit of the second model"
    sanitized || ! grep -q 'has grown' "$tmp/serve.err" || fail "an audit: $(grep 'has grown' "$tmp/serve.err")"
}

# Both at a time, many times: no memory more than before.
test_memory_does_not_grow() {
    local before after n jobs
    sanitized && return # their memory grows as it likes
    two
    serve
    ready
    ask chat
    vector embed
    get /metrics
    before=$(metric stator_host_private_bytes)
    for n in $(seq 1 15); do
        jobs=()
        (post /v1/completions '{"model": "chat", "prompt": "There was", "max_tokens": 60}' && [ "$status" = 200 ]) &
        jobs+=($!)
        (tmp=$tmp/b && mkdir -p "$tmp" && post /v1/embeddings '{"model": "embed", "input": ["a", "b", "c"]}' && [ "$status" = 200 ]) &
        jobs+=($!)
        wait "${jobs[0]}" && wait "${jobs[1]}" || fail "a request failed: $(tail -c 300 "$tmp/answer")"
    done
    get /metrics
    after=$(metric stator_host_private_bytes)
    [ $((after - before)) -lt 1048576 ] || fail "private memory grew from $before to $after"
    [ "$(metric stator_host_grown_bytes)" -lt 1048576 ] || fail "grown: $(metric stator_host_grown_bytes)"
    [ "$(metric stator_host_planned_bytes)" -gt "$after" ] || fail "planned is less than what is there"
    kill -TERM $pid
    ends 0
}

test_choice() {
    two
    serve
    ready
    get /v1/models
    answered 200 '"id":"chat".*"id":"embed"'
    get /v1/models/embed
    answered 200 '"id":"embed"'
    get /v1/models/other
    answered 404 'this server runs \\"chat\\" and \\"embed\\"'
    post /v1/embeddings '{"input": "x", "model": "other"}'
    answered 404 '"message":"there is no model \\"other\\" here: this server runs \\"chat\\" and \\"embed\\""'
    post /v1/chat/completions '{"messages": [{"role": "user", "content": {"model": "embed"}}], "model": "x"}'
    answered 404 'no model \\"x\\"'
    post /v1/embeddings '{"input": ["\"model\": \"chat\"", "}"], "x": {"model": "chat", "y": [[]]}, "model": "embed"}'
    answered 200 '"model":"embed"'
    post /api/embed '{"model": "embed:latest", "input": "x"}'
    answered 200 '"model":"embed'
    post /api/show '{"name": "embed"}'
    answered 200 '"capabilities":\["embedding"\]'
    post /api/chat '{"model": "gone", "messages": []}'
    answered 404 '"error":"there is no model'
    get /api/tags
    answered 200 '"name":"chat".*"name":"embed"'
    get '/props?model=embed'
    answered 200 '"model":"embed"'
    get '/props?a=b&model=e%6Dbed'
    answered 200 '"model":"embed"'
    get /props
    answered 200 '"model":"chat"'
    get '/slots?model=embed'
    answered 200 '"sequences":1,'
    get '/slots?model=none'
    answered 404 'no model'
    post /tokenize '{"content": "x", "model": "embed"}'
    answered 200 '"tokens"'
    post /v1/embeddings '{"model": "embed", "input": '
    answered 400 'JSON'
    grep -q 'model embed' "$tmp/serve.err" || fail "the log does not name the model"
    kill -TERM $pid
    ends 0
}

test_report_and_hash() {
    two
    expect 0 "$stator" plan "$tmp/two.cfg" --set cpu.threads=2
    local hash
    hash=$(tail -1 "$tmp/out")
    serve --report "$tmp/report" --expect-plan "${hash#plan }"
    ready
    grep -qx "all 2 models: $hash" "$tmp/serve.err" || fail "another hash: $(grep 'all 2 models' "$tmp/serve.err")"
    kill -TERM $pid
    ends 0
    [ "$(grep -c '"name": "\(chat\|embed\)"' "$tmp/report")" = 2 ] || fail "the report: $(head -c 300 "$tmp/report")"
    grep -q '"beside_bytes": [1-9]' "$tmp/report" || fail "the report does not tell of the other model"
    expect 3 "$stator" serve "$tmp/two.cfg" --set server.port=0 --expect-plan 0123
    said 'the hash of all plans is .*--expect-plan wants 0123'
}

# One model's failure is told with its place in the list and its file.
test_failures() {
    path=$tmp/none.gguf two
    expect 2 "$stator" serve "$tmp/two.cfg" --set server.port=0
    said 'stator serve: models\[1\], "embed": .*none.gguf'
    head -c 3000000 configs/demo.gguf >"$tmp/cut.gguf"
    path=$tmp/cut.gguf two
    expect 4 "$stator" serve "$tmp/two.cfg" --set server.port=0
    said 'models\[1\], "embed": .*cut.gguf'
    two '' '' 'log = { level = "loud" }'
    expect 2 "$stator" serve "$tmp/two.cfg" --set server.port=0
    said 'two.cfg:4: log.level'
    two
    expect 3 "$stator" serve "$tmp/two.cfg" --set server.port=0 --set memory.host_limit=150MiB
    said 'models\[1\], "embed": does not fit: .*"chat" takes'
    two 'chat = { template = "/none" }'
    expect 2 "$stator" serve "$tmp/two.cfg" --set server.port=0
    said 'model "chat": chat.template: /none'
}

# A signal while the second is loaded, and one while a request runs.
test_signals() {
    two
    serve
    ready
    post /v1/completions '{"model": "chat", "prompt": "There was", "max_tokens": 100000, "ignore_eos": true}' &
    local client=$!
    for ((n = 0; n < 200; n++)); do
        tmp_answer=$(curl -s "http://127.0.0.1:$port/health" || true)
        case $tmp_answer in *'"running":1'*) break ;; esac
        sleep 0.02
    done
    kill -TERM $pid
    ends 0
    wait $client || fail "the running request failed"
}

# Two models on one GPU: the plan has both, and the answers are the CPU's.
test_gpu() {
    need_driver
    two 'devices = { use = "level_zero:0" }' 'devices = { use = "level_zero:0" }' 'transfer = { mode = "auto" }'
    serve --set devices.use=cpu
    ready
    ask chat
    cp "$tmp/said" "$tmp/chat"
    vector embed
    cp "$tmp/vector" "$tmp/embed"
    kill -TERM $pid
    ends 0
    serve_under=(env "ZE_ENABLE_ALT_DRIVERS=$driver" "ZESIM=$small,log=$tmp/log.json")
    serve --set memory.driver_reserve=64MiB
    ready
    ask chat
    cmp "$tmp/said" "$tmp/chat" || fail "another text on the GPU"
    vector embed
    cmp "$tmp/vector" "$tmp/embed" || fail "another embedding on the GPU"
    kill -TERM $pid
    ends 0
    ! grep -qE 'has grown|holds .* for itself' "$tmp/serve.err" || fail "an audit: $(grep -E 'has grown|holds' "$tmp/serve.err")"
    clean
}

run_tests
