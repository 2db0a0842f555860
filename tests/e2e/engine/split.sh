# One model over several devices, through the binary: the same bytes, what the report says, the trace.
. tests/lib.sh
cfg=configs/demo.cfg

test_same_bytes() {
    local use mode
    expect 0 "$stator" logits $cfg --tokens "$(seq -s ' ' 10 99)" --output "$tmp/one.f32"
    expect 0 "$stator" run $cfg -p "Once upon a time" -n 60 --temp 0.8 --seed 7
    mv "$tmp/out" "$tmp/one.txt"
    for use in cpu:0,cpu:1 cpu:0,cpu:1,cpu:2 cpu:3,cpu:2,cpu:1,cpu:0; do
        for mode in direct staged; do
            expect 0 "$stator" logits $cfg --set devices.use=$use --set transfer.mode=$mode --set memory.batch=16 \
                --tokens "$(seq -s ' ' 10 99)" --output "$tmp/many.f32"
            cmp "$tmp/one.f32" "$tmp/many.f32" || fail "logits differ on $use $mode"
            expect 0 "$stator" run $cfg --set devices.use=$use --set transfer.mode=$mode -p "Once upon a time" -n 60 \
                --temp 0.8 --seed 7
            cmp "$tmp/out" "$tmp/one.txt" || fail "text differs on $use $mode"
        done
    done
}

test_report() {
    expect 0 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set devices.split=3,5 --tokens "1 2 3 4" -n 5 --temp 0 \
        --json --report "$tmp/r.json"
    # Four tokens and then four times one, of 128 floats: from the first device only.
    tr -d ' \n' <"$tmp/r.json" >"$tmp/r"
    local width
    width=$("$stator" inspect configs/demo.gguf | grep -oE 'embedding_length[^0-9]*[0-9]+' | grep -oE '[0-9]+$')
    for part in '"name":"cpu:0","kind":"cpu","layers":3,"first_layer":0' \
        '"name":"cpu:1","kind":"cpu","layers":5,"first_layer":3' "\"direct_bytes\":$((8 * width * 4))," \
        '"routes":\[{"from":"cpu:0","to":"cpu:1","route":"direct"'; do
        grep -q "$part" "$tmp/r" || fail "the report has no $part"
    done
    expect 0 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set transfer.mode=staged --tokens "1 2 3 4" -n 5 --temp 0 \
        --json --report "$tmp/r.json"
    said 'cpu:0 to cpu:1: staged'
    tr -d ' \n' <"$tmp/r.json" | grep -q "\"direct_bytes\":0,\"staged_bytes\":$((8 * width * 4))," || fail "staged bytes"
}

test_trace() {
    expect 0 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --tokens "1 2 3 4" -n 5 --temp 0 --trace "$tmp/t.json"
    # One line per event. Five steps on each device; eight ops per layer, the embedding, send, land and the tail, and
    # the clearing of the cache in the first step.
    [ "$(head -1 "$tmp/t.json")" = '{"displayTimeUnit":"ms","traceEvents":[' ] || fail "the head: $(head -1 "$tmp/t.json")"
    [ "$(tail -1 "$tmp/t.json")" = ']}' ] || fail "the end"
    grep -q '"process_name","pid":0,"args":{"name":"cpu:0, layers 0 to 3"}' "$tmp/t.json" || fail "no process 0"
    grep -q '"process_name","pid":1,"args":{"name":"cpu:1, layers 4 to 7"}' "$tmp/t.json" || fail "no process 1"
    for pid in 0 1; do
        [ "$(grep -c "\"ph\":\"X\".*\"pid\":$pid,\"tid\":0," "$tmp/t.json")" = 5 ] || fail "steps of $pid"
        grep -q "\"name\":\"step 0: 4 tokens\",\"pid\":$pid," "$tmp/t.json" || fail "the first step of $pid"
    done
    [ "$(grep -c '"ph":"X".*"pid":0,"tid":1,' "$tmp/t.json")" = $((5 * (4 * 8 + 2) + 1)) ] || fail "ops of 0"
    [ "$(grep -c '"ph":"X".*"pid":1,"tid":1,' "$tmp/t.json")" = $((5 * (4 * 8 + 1 + 3) + 1)) ] || fail "ops of 1"
    expect 1 "$stator" run $cfg --tokens "1 2 3 4" -n 5 --trace "$tmp/none/t.json"
    said 'none/t.json'
    expect 2 "$stator" run $cfg --tokens "1 2 3 4" -n 5 --trace -
    said 'would mix with the text'
}

# A trace that is not whole is an error, at the start and in the middle; the text is there all the same.
test_trace_on_a_full_disk() {
    expect 1 "$stator" run $cfg --tokens "1 2 3 4" -n 5 --trace /dev/full
    said 'the trace in /dev/full is not whole: No space left'
    [ ! -s "$tmp/out" ] || fail "it ran although the trace could not begin"
    expect 0 "$stator" run $cfg --tokens "1 2 3 4" -n 40 --temp 0
    mv "$tmp/out" "$tmp/whole"
    # 100 KB: the first write of 64 KiB fits, the second is a short one.
    expect 1 bash -c 'trap "" XFSZ; ulimit -f 100; exec "$@"' - "$stator" run $cfg --tokens "1 2 3 4" -n 40 --temp 0 --trace "$tmp/t.json"
    said 'the trace in .*t.json is not whole: File too large'
    cmp "$tmp/out" "$tmp/whole" || fail "another text"
    [ "$(stat -c %s "$tmp/t.json")" = 102400 ] || fail "the trace has $(stat -c %s "$tmp/t.json") bytes"
}

test_refused() {
    expect 2 "$stator" run $cfg --set devices.use=cpu:0,cpu:9 -p x
    said 'cpu:9'
    expect 2 "$stator" run $cfg --set devices.use=cpu:0,cpu:0 -p x
    expect 2 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set devices.split=1,2,3 -p x
    expect 5 "$stator" run $cfg --set devices.use=cpu:0,level_zero:99 -p x
    said 'level_zero:99'
}

test_plan_routes() {
    expect 0 "$stator" plan $cfg --set devices.use=cpu:0,cpu:1
    cat "$tmp/out" "$tmp/err" | grep -q 'copies from cpu:0 to cpu:1: .* a token; direct' || fail "no route in the plan"
    expect 0 "$stator" plan $cfg --set devices.use=cpu:0,cpu:1 --set transfer.mode=staged --json
    tr -d ' \n' <"$tmp/out" | grep -q '"to_next":{"route":"staged","why":"transfer.modeis' || fail "no route in the JSON"
    grep -q '"name": "window 0 from cpu:0"' "$tmp/out" || fail "no window in the plan"
    expect 0 "$stator" plan $cfg --device gpu0=1GiB --device gpu1=1GiB --json
    tr -d ' \n' <"$tmp/out" | grep -q '"to_next":{"route":"byprobe"' || fail "no probe in the JSON"
    grep -q '"name": "steps and results of gpu1"' "$tmp/out" || fail "no pinned part in the plan"
}

test_audit() {
    local strict=true
    sanitized && strict=false
    expect 0 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set memory.strict=$strict -p hi -n 20 --report "$tmp/r.json"
    said '^  = +[0-9.]+ MiB  private by the kernel'
    said 'growth outside the plan since the engine was sealed'
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"audit":\{"sealed":\{"planned_bytes":[0-9]+,.*"end":\{' || fail "no audit in the report"
    expect 0 "$stator" logits $cfg --set memory.strict=$strict --tokens "1 2 3" --output "$tmp/l.f32"
}

run_tests
