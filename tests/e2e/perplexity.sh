# `stator perplexity`: the figure of llama.cpp, independent of what is computed beside what; saved logits and what refuses
# them; signals.
. tests/lib.sh
model=configs/demo.gguf
text=tests/data/demo-heldout.txt

# llama.cpp v0.5.0 (prebuilt, node-llama-cpp 3.22.1) on the same windows, through ../shared/peer/peer_llama.c and float64:
# 1.210838 +/- 0.018477.
test_figure_of_the_peer() {
    expect 0 "$stator" perplexity $model -f $text --json
    awk '/"perplexity"/ { inside = 1 } inside && /"value"/ { v = $2 + 0 } inside && /"error"/ { x = $2 + 0; inside = 0 }
         END { print "# " v " +/- " x; exit v > 1.2098 && v < 1.2118 && x > .0183 && x < .0187 ? 0 : 1 }' "$tmp/out" || fail "$(cat "$tmp/out")"
    printed '"window": 512'
    printed '"bos": true'
    printed '"windows_done": 6'
    printed '"scored": 1530'
}

test_company_changes_nothing() {
    local set
    expect 0 "$stator" perplexity $model -f $text --set memory.context=128 --save-logits "$tmp/all"
    cp "$tmp/out" "$tmp/first"
    for set in memory.sequences=5 memory.batch=40 cpu.threads=1 memory.logits_rows=3; do
        expect 0 "$stator" perplexity $model -f $text --set memory.context=128 --set $set --save-logits "$tmp/again"
        cmp "$tmp/first" "$tmp/out" || fail "$set: $(cat "$tmp/out")"
        cmp "$tmp/all" "$tmp/again" || fail "$set gives other logits"
    done
    expect 0 sh -c "cat $text | '$stator' perplexity $model -f - --set memory.context=128"
    cmp "$tmp/first" "$tmp/out" || fail "from standard input: $(cat "$tmp/out")"
}

test_base() {
    expect 0 "$stator" perplexity $model -f $text --set memory.context=256 --save-logits "$tmp/base" --report "$tmp/report"
    grep -q '"audit"' "$tmp/report" || fail "no report"
    expect 0 "$stator" perplexity $model -f $text --set memory.context=256 --kl-base "$tmp/base" --set memory.sequences=3
    printed '^ratio +1\.00000 \+/- 0\.0000'
    printed '^KL divergence +0\.000000'
    printed '^same top token 100\.00'
    expect 0 "$stator" perplexity $model -f $text --set memory.context=256 --kl-base "$tmp/base" --set memory.kv_type=q4_0 --chunks 9 --json
    printed '"windows_done": 9'
    awk '/"mean"/ { k = $2 + 0 } /"largest"/ { l = $2 + 0 } END { print "# " k, l; exit k > 1e-6 && k < 1e-3 && l > k ? 0 : 1 }' "$tmp/out" ||
        fail "$(cat "$tmp/out")"
}

test_refusals() {
    local base=$tmp/base
    expect 0 "$stator" perplexity $model -f $text --set memory.context=256 --chunks 2 --save-logits "$base"
    expect 2 "$stator" perplexity $model
    said '-f FILE is missing'
    expect 2 "$stator" perplexity $model -f "$tmp/none"
    expect 2 "$stator" perplexity $model -f $text --set memory.context=2
    said 'a window needs 4 tokens'
    head -c 500 $text >"$tmp/short"
    expect 2 "$stator" perplexity $model -f "$tmp/short"
    said 'has [0-9]+ tokens, less than one window of 512 \(memory.context\)'
    expect 2 "$stator" perplexity $model -f $text --set memory.context=256 --kl-base "$base"
    said 'fewer than the 13 that are asked for: give --chunks 2'
    expect 2 "$stator" perplexity $model -f $text --set memory.context=128 --chunks 2 --kl-base "$base"
    said 'windows of 256 tokens, memory.context is 128'
    tail -c +2 $text >"$tmp/other"
    expect 2 "$stator" perplexity $model -f "$tmp/other" --set memory.context=256 --chunks 2 --kl-base "$base"
    said 'saved for another text'
    expect 2 "$stator" perplexity $model -f $text --kl-base $text
    said 'holds no saved logits'
    expect 2 "$stator" perplexity $model -f $text --set memory.context=256 --chunks 2 --kl-base "$base" --save-logits "$base"
    said 'would write over .*base, which is read'
    expect 2 "$stator" perplexity $model -f $text --save-logits /dev/null
    said 'not a regular file'
    expect 1 "$stator" perplexity $model -f $text --save-logits "$tmp/none/x"
    cp $model "$tmp/m.gguf"
    ln -s m.gguf "$tmp/link"
    expect 2 "$stator" perplexity "$tmp/m.gguf" -f $text --save-logits "$tmp/link"
    cmp $model "$tmp/m.gguf" || fail "the model was written to"
    printf '\377\376' >"$tmp/bytes"
    expect 2 "$stator" perplexity $model -f "$tmp/bytes"
}

# What is known is printed; what can't be complete is not there.
test_signal() {
    local args pid got n
    for args in "" "--save-logits $tmp/saved"; do
        rm -f "$tmp/err"
        # shellcheck disable=SC2086
        env --default-signal=INT "$stator" perplexity $model -f - --set memory.context=64 $args >"$tmp/out" 2>"$tmp/err" \
            < <(for _ in $(seq 60); do cat $text; done) &
        pid=$!
        for ((n = 0; n < 3000; n++)); do ! grep -qs '^sealed' "$tmp/err" || break; sleep 0.1; done # while it loads it says something else
        sleep 1
        kill -INT $pid
        got=0
        wait $pid || got=$?
        said 'stopped by a signal after [0-9]+ of [0-9]+ windows'
        if [ -z "$args" ]; then
            [ $got = 0 ] || fail "exit $got"
        else
            [ $got = 1 ] || fail "exit $got with --save-logits"
            [ ! -e "$tmp/saved" ] || fail "half a file of logits"
        fi
        ! grep -q '^stopped by a signal after 0 of' "$tmp/err" && ! grep -q '^perplexity ' "$tmp/out" && [ -z "$args" ] && fail "windows, but no figure"
    done
    return 0
}

run_tests
