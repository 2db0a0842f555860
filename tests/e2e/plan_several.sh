# `stator plan` of a config with several models: the plan of each, the table of all, refusals by model.
. tests/lib.sh
# two MORE-OF-THE-SECOND MORE-OF-THE-FILE: a config with two models, in $tmp/two.cfg.
two() {
    cat >"$tmp/two.cfg" <<END
models = ( { name = "chat"; path = "$PWD/configs/demo.gguf"; memory = { context = 256 } },
           { name = "embed"; path = "${path:-$PWD/configs/demo.gguf}"; pooling = "last"; ${1:-} } )
memory = { batch = 64; ${2:-} }
END
}

test_table() {
    two
    expect 0 "$stator" plan "$tmp/two.cfg"
    printed '^models\[0\], "chat": stator demo \(llama\), context 256'
    printed '^models\[1\], "embed": stator demo \(llama\), context 1024'
    printed '^they fit together'
    said '^embed: stator '
    awk '/^all models/ { on = 1; next } !on { next }
        / chat / { a = $3 } /^ +embed / { b = $2 } /^ +together / { all = $2 }
        END { exit a > 0 && b > 0 && all == a + b ? 0 : 1 }' "$tmp/out" || fail "the sum is wrong: $(tail -6 "$tmp/out")"
    local hash
    hash=$(tail -1 "$tmp/out")
    expect 0 "$stator" plan "$tmp/two.cfg" --json
    printed "^  \"hash\": \"${hash#plan }\",$"
    printed '^  "fits": true,$'
    printed '^      "name": "embed",$'
    [ "$(grep -c '"hash"' "$tmp/out")" = 3 ] || fail "not three hashes"
    # The second one has the budget that the first one leaves.
    awk -F'[:,]' '/"limit"/ { limit[n++] = $2 } /"total"/ { if (!(n in total)) total[n] = $2 }
        END { exit n == 3 && limit[2] == limit[1] - total[2] && limit[0] == limit[1] ? 0 : 1 }' "$tmp/out" ||
        fail "budgets: $(grep -E '"limit"|"total"' "$tmp/out" | tr -d '\n')"
}

test_gpu() {
    two
    expect 0 "$stator" plan "$tmp/two.cfg" --device gpu0=1GiB --set memory.driver_reserve=16MiB
    awk '/^all models/ { on = 1; next } !on { next } $1 == "gpu0" { found = 1 } found && $1 == "together" { print $NF, $(NF - 1); exit }' \
        "$tmp/out" >"$tmp/budget"
    [ "$(cat "$tmp/budget")" = "GiB 1.00" ] || fail "the budget of gpu0: $(cat "$tmp/budget")"
    expect 3 "$stator" plan "$tmp/two.cfg" --device gpu0=40MiB --set memory.driver_reserve=20MiB
    said 'models\[1\], "embed": does not fit: gpu0 needs'
}

test_too_small() {
    two '' 'host_limit = "150MiB"'
    expect 3 "$stator" plan "$tmp/two.cfg"
    said 'stator plan: models\[1\], "embed": does not fit: host needs .* The model "chat" takes '
    ! grep -q '^they fit' "$tmp/out" || fail "they fit"
    expect 3 "$stator" plan "$tmp/two.cfg" --json
    printed '^  "fits": false,$'
}

test_refusals() {
    path=$tmp/none.gguf two
    expect 2 "$stator" plan "$tmp/two.cfg"
    said 'models\[1\], "embed": .*none.gguf'
    head -c 100000 configs/demo.gguf >"$tmp/cut.gguf"
    path=$tmp/cut.gguf two
    expect 4 "$stator" plan "$tmp/two.cfg"
    said 'models\[1\], "embed": .*cut.gguf'
    two 'memory = { contxt = 5 }'
    expect 2 "$stator" plan "$tmp/two.cfg"
    said 'models\[1\], "embed": .*two.cfg:2: unknown key "contxt"'
    two
    expect 2 "$stator" plan "$tmp/two.cfg" --ascii
    said 'for one model, and the config has 2: choose it with --set model.name=chat'
    expect 2 "$stator" run "$tmp/two.cfg" -p x -n 1
    said 'has 2 models \(chat, embed\), and this command runs one: choose it with --set model.name=chat'
}

# One of them alone, as if the config had no other.
test_one() {
    two
    expect 0 "$stator" plan "$tmp/two.cfg" --ascii --set model.name=chat
    expect 0 "$stator" run "$tmp/two.cfg" -p 'Once upon' -n 8 --temp 0 --set model.name=chat
    cp "$tmp/out" "$tmp/one"
    expect 0 "$stator" run configs/demo.gguf -p 'Once upon' -n 8 --temp 0
    cmp -s "$tmp/out" "$tmp/one" || fail "another text"
    expect 0 "$stator" config "$tmp/two.cfg" --set model.name=embed
    printed '^ +name = "embed"; +# --set$'
    printed '^ +pooling = "last"; +# .*two.cfg:2$'
    grep -v '^ *#' "$tmp/out" >"$tmp/alone.cfg"
    expect 0 "$stator" embed "$tmp/alone.cfg" 'Once upon'
}

run_tests
