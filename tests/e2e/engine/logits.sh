# `stator logits`: raw rows of every position, independent of the chunks; refusals.
. tests/lib.sh
model=configs/demo.gguf
ids=$(cat tests/data/demo.prompt.txt)
row=$((2048 * 4))

test_rows() {
    expect 0 "$stator" logits $model --tokens "$ids" --output "$tmp/all"
    [ "$(stat -c %s "$tmp/all")" = $((48 * row)) ] || fail "$(stat -c %s "$tmp/all") bytes"
    expect 0 "$stator" logits $model --tokens-file tests/data/demo.prompt.txt --output - --set memory.batch=5 --set memory.logits_rows=3 \
        --set cpu.threads=3
    cmp "$tmp/out" "$tmp/all" || fail "smaller steps give other bytes"
    expect 0 "$stator" logits $model --tokens "${ids% *}" --output "$tmp/less" --set memory.sequences=4
    [ "$(stat -c %s "$tmp/less")" = $((47 * row)) ] || fail "$(stat -c %s "$tmp/less") bytes"
    cmp -n $((47 * row)) "$tmp/less" "$tmp/all" || fail "a later token changes earlier rows"
    expect 0 "$stator" logits $model --tokens 0 -o "$tmp/one" --set cpu.tier=scalar
    cmp -n $row "$tmp/one" "$tmp/all" || fail "one position alone gives other bytes"
}

# One token at a time with more threads than KV heads (2): they share out the context's splits of 256.
test_splits() {
    local long threads
    long=$(seq -s ' ' 1 3 1800)
    expect 0 "$stator" logits $model --tokens "$long" --output "$tmp/all" --set cpu.threads=2
    for threads in 3 5; do
        expect 0 "$stator" logits $model --tokens "$long" --output "$tmp/one" --set memory.batch=1 --set cpu.threads=$threads
        cmp "$tmp/one" "$tmp/all" || fail "$threads threads give other bytes"
    done
}

# Close to float64, by od and awk; .0109 was measured, int8 activations are the difference.
test_reference() {
    expect 0 "$stator" logits $model --tokens "$ids" --output "$tmp/all"
    paste -d' ' <(od -An -v -tf4 -w4 "$tmp/all") <(od -An -v -tf4 -w4 tests/data/demo.logits.f32) |
        awk '{ d = $1 - $2; s += d * d; t += $2 * $2 } END { printf "# relative rms %.5f\n", sqrt(s / t); exit NR == 98304 && s < .0125 * .0125 * t ? 0 : 1 }' ||
        fail "far from the reference"
}

test_report() {
    expect 0 "$stator" logits $model --tokens "$ids" --output "$tmp/all" --report "$tmp/report" --set memory.logits_rows=16
    grep -qE '"submits": 3,' "$tmp/report" || fail "not three steps: $(grep submits "$tmp/report")"
    grep -qE '"prompt_tokens": 48,' "$tmp/report" || fail "not 48 tokens"
}

test_refusals() {
    local args
    for args in "--tokens 1" "--output $tmp/x" "--tokens 1 --tokens-file tests/data/demo.prompt.txt --output $tmp/x" \
        "--tokens 2048 --output $tmp/x" "--tokens -1 --output $tmp/x" "--tokens-file $tmp/none --output $tmp/x"; do
        # shellcheck disable=SC2086
        expect 2 "$stator" logits $model $args
    done
    expect 2 "$stator" logits $model --tokens '' --output "$tmp/x"
    said 'the prompt is empty'
    expect 2 "$stator" logits $model --tokens "$ids" --output "$tmp/x" --set memory.context=47
    said 'has 48 tokens, memory.context is 47'
    printf '1 2 \0 3 4' >"$tmp/ids"
    expect 2 "$stator" logits $model --tokens-file "$tmp/ids" --output "$tmp/x"
    expect 1 "$stator" logits $model --tokens 1 --output "$tmp/none/x"
    said '--output .*none/x can.t be written: No such file'
    [ -c /dev/full ] || return 0
    expect 1 "$stator" logits $model --tokens "$ids" --output /dev/full --report "$tmp/report.json"
    grep -q '"audit"' "$tmp/report.json" || fail "no report of a run that failed"
    said 'No space left'
    local got=0
    "$stator" logits $model --tokens "$ids" --output - >/dev/full 2>"$tmp/err" || got=$?
    [ $got = 1 ] || fail "exit $got with a full disk"
}

test_signal() {
    mkfifo "$tmp/pipe"
    env --default-signal=INT "$stator" logits $model --tokens "$(seq -s ' ' 0 1000)" --output "$tmp/pipe" 2>"$tmp/err" &
    local pid=$! got=0
    exec 9<"$tmp/pipe"
    head -c $((3 * row)) <&9 >/dev/null
    kill -INT $pid
    cat <&9 >"$tmp/rest"
    exec 9<&-
    wait $pid || got=$?
    [ $got = 1 ] || fail "exit $got"
    said 'stopped by a signal; the output is not complete'
    [ "$(stat -c %s "$tmp/rest")" -lt $((900 * row)) ] || fail "it went on"
}

run_tests
