# `stator embed`: embeddings of texts, of files, lines and ids; what company and devices do not change; refusals.
. tests/lib.sh
. tests/lib_gpu.sh
model=configs/demo.gguf
last=(--set model.pooling=last)

# length FILE: of each line of numbers.
length() { awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i * $i; printf "%.5f %d\n", sqrt(s), NF }' "$1"; }

test_plain_and_json() {
    expect 0 "$stator" embed $model 'Once upon a time' "${last[@]}" --report "$tmp/report"
    cp "$tmp/out" "$tmp/one"
    grep -q '"audit"' "$tmp/report" || fail "no report"
    [ "$(wc -l <"$tmp/one")" = 1 ] || fail "more than one line"
    length "$tmp/one" | grep -qE '^1\.00000 [0-9]{2,}$' || fail "not of length 1: $(length "$tmp/one")"
    expect 0 "$stator" embed $model 'Once upon a time' "${last[@]}" --json
    printed '"pooling":"last","dimensions":[0-9]+,"embeddings":\[\{"tokens":[0-9]+,"embedding":\[-?[0-9]'
    expect 0 "$stator" embed $model 'Once upon a time' "${last[@]}" --dimensions 8
    length "$tmp/out" | grep -qx '1.00000 8' || fail "8 dimensions: $(cat "$tmp/out")"
    expect 0 "$stator" embed $model 'Once upon a time' --set model.pooling=mean
    ! cmp -s "$tmp/out" "$tmp/one" || fail "the mean is the last token's"
}

test_inputs() {
    printf 'Once upon a time\nthere was a frog.\r\n\nThe frog sang.' >"$tmp/lines"
    local i=0 line
    for line in 'Once upon a time' 'there was a frog.' 'The frog sang.'; do
        expect 0 "$stator" embed $model "$line" "${last[@]}"
        cat "$tmp/out" >>"$tmp/want"
        printf '%s' "$line" >"$tmp/text$((i += 1))"
    done
    expect 0 "$stator" embed $model -f "$tmp/lines" --lines "${last[@]}"
    cmp "$tmp/out" "$tmp/want" || fail "--lines gives other embeddings"
    expect 0 "$stator" embed $model -f "$tmp/text1" -f "$tmp/text2" -f "$tmp/text3" "${last[@]}" --set memory.sequences=3
    cmp "$tmp/out" "$tmp/want" || fail "three files give other embeddings"
    expect 0 sh -c "cat '$tmp/lines' | '$stator' embed $model --lines --set model.pooling=last --set memory.batch=5"
    cmp "$tmp/out" "$tmp/want" || fail "standard input gives other embeddings"
    local ids
    ids=$("$stator" tokenize $model 'Once upon a time')
    expect 0 "$stator" embed $model --tokens "$ids" "${last[@]}"
    cmp "$tmp/out" <(head -1 "$tmp/want") || fail "--tokens gives another embedding"
}

# More texts than the queue holds.
test_many() {
    seq -f 'text number %g' 1 300 >"$tmp/many"
    expect 0 "$stator" embed $model -f "$tmp/many" --lines "${last[@]}" --set memory.sequences=4 --set server.max_queue=2
    [ "$(sort -u "$tmp/out" | wc -l)" = 300 ] || fail "$(sort -u "$tmp/out" | wc -l) different embeddings of 300 texts"
}

test_plan() {
    expect 0 "$stator" plan $model --json
    grep -o '"hash": "[^"]*"' "$tmp/out" >"$tmp/plain"
    expect 0 "$stator" plan $model --json "${last[@]}"
    ! grep -qF "$(cat "$tmp/plain")" "$tmp/out" || fail "the plan of another tail has the same hash"
}

test_refusals() {
    expect 2 "$stator" embed $model 'Once'
    said 'generates text .*--set model.pooling=last or mean'
    expect 2 "$stator" run $model -p 'Once' "${last[@]}"
    said 'generates no text: its pooling is "last"'
    expect 2 "$stator" embed $model 'Once' --dimensions 100000 "${last[@]}"
    said 'dimensions is 100000: this model.s embeddings have [0-9]+ values'
    expect 2 "$stator" embed $model 'Once' -f "$tmp/none" "${last[@]}"
    said 'exclude each other'
    expect 2 "$stator" embed $model -f "$tmp/none" "${last[@]}"
    expect 2 "$stator" embed $model "$(seq -s ' ' 1 400)" --set memory.context=64 "${last[@]}"
    said 'TEXT: the text has [0-9]+ tokens, memory.context is 64'
    expect 2 "$stator" embed $model --tokens '1 999999' "${last[@]}"
    said 'token 1 of the prompt is 999999'
    expect 2 "$stator" embed $model 'Once' --set model.pooling=cls
    said 'no known architecture has'
    expect 2 "$stator" embed $model --lines "${last[@]}"
    said 'there is no text'
} </dev/null

test_gpu() {
    need_driver
    local pooling
    printf 'Once upon a time\nthere was a frog.\nThe frog sang all day and all night, until the moon came.' >"$tmp/lines"
    for pooling in last mean; do
        local run=("$stator" embed $model -f "$tmp/lines" --lines --set model.pooling=$pooling --set memory.sequences=3 --set memory.batch=16)
        expect 0 "${run[@]}" --set devices.use=cpu:0
        cp "$tmp/out" "$tmp/cpu"
        expect_gpu 0 '' "${run[@]}" --set devices.use=level_zero:0 --report "$tmp/report"
        cmp "$tmp/out" "$tmp/cpu" || fail "$pooling: other embeddings than the CPU's"
        clean
        [ "$(of level_zero:0 kernels_executed)" -gt 0 ] || fail "$pooling: nothing ran on the GPU"
    done
    expect_gpu 0 devices=2 "${run[@]}" --set 'devices.use="level_zero:0,level_zero:1"'
    cmp "$tmp/out" "$tmp/cpu" || fail "two GPUs: other embeddings than the CPU's"
}

run_tests
