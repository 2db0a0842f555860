# A tensor split through the binary: the bytes of one device, for texts, logits, a server's answers; what the plan and the report say.
. tests/lib.sh
. tests/lib_serve.sh
cfg=configs/demo.cfg

test_same_bytes() {
    # The last ones are on both sides of a boundary of the vocabulary, for one of the splits.
    local use split groups ids="$(seq -s ' ' 10 99) 335 336 511 512 1023 1024 1359 1360 1535 1536 2047 0"
    expect 0 "$stator" logits $cfg --tokens "$ids" --output "$tmp/one.f32"
    expect 0 "$stator" run $cfg -p "Once upon a time" -n 60 --temp 0.8 --seed 7
    mv "$tmp/out" "$tmp/one.txt"
    while read -r use split groups; do
        expect 0 "$stator" logits $cfg --set devices.use=$use --set devices.split=$split --set devices.groups=$groups --set memory.batch=16 \
            --tokens "$ids" --output "$tmp/many.f32"
        cmp "$tmp/one.f32" "$tmp/many.f32" || fail "logits differ on $use, $split, $groups"
        expect 0 "$stator" run $cfg --set devices.use=$use --set devices.split=$split --set devices.groups=$groups -p "Once upon a time" -n 60 --temp 0.8 --seed 7
        cmp "$tmp/out" "$tmp/one.txt" || fail "text differs on $use, $split"
    done <<'END'
cpu:0,cpu:1 tensor 1
cpu:3,cpu:2,cpu:1,cpu:0 tensor 1
cpu:0,cpu:1,cpu:2 tensor:1,3,2 1
cpu:3,cpu:2,cpu:1,cpu:0 tensor 2
cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5 tensor:1,3,2,1,1,1 5,3
END
}

# Two groups: what the plan says of layers, shares, exchanges and copies, and what the report counts of one token.
test_groups() {
    local four=($cfg --set devices.use=cpu:0,cpu:1,cpu:2,cpu:3 --set devices.split=tensor) i
    expect 0 "$stator" plan "${four[@]}" --set devices.groups=3,1
    for i in 1 2; do
        printed "^weights on cpu:$((i - 1)): share $i of 2 of layers 0 to 5,"
        printed "^weights on cpu:$((i + 1)): share $i of 2 of layers 6 to 7,"
    done
    # Four exchanges of a layer. The first group's also joins embeddings, the second one what its first device gets; then logits.
    printed '^exchanges of cpu:1: 25 a token;'
    printed '^exchanges of cpu:3: 10 a token;'
    printed '^copies from cpu:1 to cpu:2: [0-9.]+ [KM]iB a token; direct:'
    [ "$(grep -c '^copies' "$tmp/out")" = 1 ] || fail "copies"
    printed '^logits: .* to cpu:3$'
    expect 0 "$stator" plan "${four[@]}" --set devices.groups=3,1 --json
    printed '"groups": "3,1"'
    tr -d ' \n' <"$tmp/out" >"$tmp/plan"
    expect 0 "$stator" run "${four[@]}" --set devices.groups=3,1 --tokens "1 2 3 4" -n 1 --temp 0 --json --report "$tmp/r.json"
    tr -d ' \n' <"$tmp/r.json" >"$tmp/r"
    for i in 0 1 2 3; do
        local bytes row
        bytes=$(grep -oE "\"name\":\"cpu:$i\",\"budget\"[^}]*},\"share\":\{[^}]*" "$tmp/plan" | grep -oE 'received_bytes_per_token":[0-9]+' | grep -oE '[0-9]+$')
        row=$(grep -oE "\"name\":\"cpu:$i\",\"budget\"[^}]*},\"share\":\{[^}]*" "$tmp/plan" | grep -oE 'received_bytes_per_row":[0-9]+' | grep -oE '[0-9]+$')
        [ $i != 1 ] || bytes=$((bytes + 4 * 256)) # the residual stream, to the next group
        grep -qE "\"name\":\"cpu:$i\",\"kind\":\"cpu\".*\"direct_bytes\":$((4 * bytes + row))," "$tmp/r" || fail "the report does not count $bytes and $row for $i"
    done
    grep -oE '"from":"[^"]*","to":"[^"]*"' "$tmp/r" | tr -d '"' | tr '\n' ' ' >"$tmp/routes"
    [ "$(cat "$tmp/routes")" = "from:cpu:0,to:cpu:1 from:cpu:1,to:cpu:0 from:cpu:1,to:cpu:2 from:cpu:2,to:cpu:3 from:cpu:3,to:cpu:2 " ] ||
        fail "routes: $(cat "$tmp/routes")"
}

# What the plan says a device gets for each token and each row of logits is what the report counts: four tokens, then four
# times one, and five rows. The last device has the logits.
test_plan_and_report() {
    local two=($cfg --set devices.use=cpu:0,cpu:1 --set devices.split=tensor:3,1) bytes row device
    expect 0 "$stator" plan "${two[@]}" --json
    tr -d ' \n' <"$tmp/out" >"$tmp/plan"
    expect 0 "$stator" run "${two[@]}" --tokens "1 2 3 4" -n 5 --temp 0 --json --report "$tmp/r.json"
    tr -d ' \n' <"$tmp/r.json" >"$tmp/r"
    for device in 0 1; do
        bytes=$(grep -oE "\"share\":\{\"index\":$device,\"of\":2,\"received_bytes_per_token\":[0-9]+" "$tmp/plan" | grep -oE '[0-9]+$')
        [ -n "$bytes" ] || fail "the plan does not say what device $device gets"
        row=$(grep -oE "\"share\":\{\"index\":$device,[^}]*" "$tmp/plan" | grep -oE 'received_bytes_per_row":[0-9]+' | grep -oE '[0-9]+$')
        [ $((row > 0)) = $device ] || fail "device $device gets $row bytes of a row of logits"
        grep -qE "\"name\":\"cpu:$device\",\"kind\":\"cpu\".*\"direct_bytes\":$((8 * bytes + 5 * row))," "$tmp/r" || fail "the report does not count it for $device"
    done
    expect 0 "$stator" plan "${two[@]}"
    grep -q 'weights on cpu:0: share 1 of 2 of layers 0 to 7' "$tmp/out" || fail "the plan does not name the share"
}

# Each device has rows of the embedding, which is the demo's output matrix too: once, and all devices have about as much.
test_even() {
    local all
    expect 0 "$stator" plan $cfg --json
    all=$(grep -A3 '"name": "token_embd.weight"' "$tmp/out" | sed -n 's/.*"bytes": \([0-9]*\).*/\1/p')
    expect 0 "$stator" plan $cfg --set devices.use=cpu:0,cpu:1 --set devices.split=tensor --json
    grep -A3 '"name": "token_embd.weight"' "$tmp/out" | sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' >"$tmp/parts"
    [ "$(tr '\n' ' ' <"$tmp/parts")" = "$((all / 2)) $((all / 2)) " ] || fail "of $all bytes: $(tr '\n' ' ' <"$tmp/parts")"
    sed -n 's/.*"packed": \([0-9]*\),*$/\1/p' "$tmp/out" | awk '{ a[NR] = $1 } END { exit !(NR == 2 && a[1] < 1.02 * a[2] && a[2] < 1.02 * a[1]) }' ||
        fail "uneven: $(grep '"packed"' "$tmp/out")"
}

# The report has every ordered pair, the trace the ways that each device's values go and the exchanges.
test_routes() {
    expect 0 "$stator" run $cfg --set devices.use=cpu:0,cpu:1,cpu:2 --set devices.split=tensor --tokens "1 2 3 4" -n 5 --temp 0 \
        --report "$tmp/r.json" --trace "$tmp/t.json"
    tr -d ' \n' <"$tmp/r.json" | grep -oE '"from":"[^"]*","to":"[^"]*","route":"[a-z]*"' | tr -d '"' | tr '\n' ' ' >"$tmp/routes"
    local all='' i k
    for i in 0 1 2; do
        for k in 0 1 2; do [ $i = $k ] || all="${all}from:cpu:$i,to:cpu:$k,route:direct "; done
    done
    [ "$(cat "$tmp/routes")" = "$all" ] || fail "routes: $(cat "$tmp/routes")"
    grep -q '"process_labels","pid":1,"args":{"labels":"direct to cpu:0, direct to cpu:2"}' "$tmp/t.json" || fail "no label"
    for i in 0 1 2; do
        [ "$(grep -c "\"name\":\"[^\"]*exchange[^\"]*\",\"pid\":$i,\"tid\":1," "$tmp/t.json")" = $((5 * 34)) ] || fail "exchanges of $i"
    done
}

# n-gram speculation, and a draft of its own, keep the text.
test_speculation() {
    local mode
    expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 120 --temp 0
    mv "$tmp/out" "$tmp/plain.txt"
    for mode in ngram draft; do
        expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 120 --temp 0 --set devices.use=cpu:0,cpu:1 --set devices.split=tensor \
            --set speculation.mode=$mode $([ $mode = draft ] && echo --set speculation.model=configs/demo.gguf) --report "$tmp/r.json"
        cmp "$tmp/out" "$tmp/plain.txt" || fail "$mode: another text"
        tr -d ' \n' <"$tmp/r.json" | grep -qE "\"mode\":\"$mode\".*\"guessed\":[1-9][0-9]*,\"kept\":[1-9]" || fail "$mode: no guess was kept"
    done
}

# ask IDS CACHED FILE: so many tokens of the prompt were there; the answer is that of FILE, if it is there already.
ask() {
    complete "$1" 8
    [ "$cached" = "$2" ] || fail "$cached tokens were there, expected $2"
    [ -e "$tmp/$3" ] || mv "$tmp/said" "$tmp/$3"
    [ ! -e "$tmp/said" ] || cmp "$tmp/said" "$tmp/$3" || fail "another answer than that of one device"
}

# A server goes on from prefixes, with checkpoints of states or windows, and from files after a new start, then in two groups.
test_served() {
    local model ids more first second use groups
    ids=$(count 10 131)
    more=$ids,$(count 300 40)
    for model in qwen35 gemma3; do
        need_shared oracles/models/$model.gguf
        rm -rf "$tmp/kv" "$tmp/first" "$tmp/second"
        serve_config=$shared/oracles/models/$model.gguf serve --set memory.context=256 --set server.prefix_cache=false
        ready
        ask "$ids" 0 first
        ask "$more" 0 second
        kill -TERM $pid
        ends 0
        while read -r first second use groups; do
            serve_config=$shared/oracles/models/$model.gguf serve --set devices.use=$use --set devices.split=tensor --set devices.groups=$groups \
                --set memory.strict=true --set memory.context=256 --set memory.sequences=2 --set cache.kv_dir="$tmp/kv"
            ready
            ask "$ids" $first first
            ask "$more" $second second
            ask "$ids" 96 first
            kill -TERM $pid
            ends 0
        done <<<$'0 96 cpu:0,cpu:1 1\n96 160 cpu:0,cpu:1,cpu:2,cpu:3 2'
    done
}

test_refused() {
    expect 2 "$stator" run $cfg --set devices.split=tensor -p x
    said 'needs two devices or more'
    expect 2 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set devices.split=tensor --set transfer.mode=staged -p x
    said 'transfer.mode'
    expect 2 "$stator" run $cfg --set devices.use=cpu:0,cpu:1 --set devices.split=tensor --set speculation.mode=mtp -p x
    said 'has no MTP head'
    expect 2 "$stator" plan $cfg --set devices.split=tensor --set 'cluster.stages="a=cpu:0;b=cpu:0"'
    said 'no host of cluster.stages has two devices'
    expect 2 "$stator" plan $cfg --set devices.use=cpu:0,cpu:1,cpu:2,cpu:3 --set devices.groups=2
    said 'devices.groups .*set devices.split = "tensor" too'
    expect 0 "$stator" plan $cfg --device a=3MiB --device b=3MiB --set devices.split=tensor --set memory.on_oom=spill --set memory.driver_reserve=1MiB
    printed '^ *spill a'
}

run_tests
