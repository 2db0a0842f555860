# tools/zecuda/random_model: models of a given shape in every block format and after a given header; and what such models of 2
# and of 6 layers show: a step asks the same of a GPU's driver, however many layers there are.
. tests/lib.sh
. tests/lib_gpu.sh

need_python() { python3 -c '' 2>/dev/null || skip "python3 is missing"; }

test_every_block_format() {
    need_python
    local type all
    all=$(sed -n '/^TYPES = {/,/^}/p' tools/zecuda/random_model | grep -oE '"[a-z0-9_]+": \(' | tr -cd 'a-z0-9_\n')
    [ "$(wc -w <<<"$all")" -ge 27 ] || fail "$(wc -w <<<"$all") formats"
    for type in $all; do
        [ $type != f32 ] || continue
        tools/zecuda/random_model tiny $type "$tmp/$type.gguf" || fail "$type can't be made"
        expect 0 "$stator" bench "$tmp/$type.gguf" -p 2 -n 2 -r 1 --set devices.use=cpu:0
    done
}

test_after_a_header() {
    need_python
    tools/zecuda/random_model tiny q4_k_m "$tmp/model.gguf"
    head -c $(($(stat -c %s "$tmp/model.gguf") / 2)) "$tmp/model.gguf" |
        python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.compress(sys.stdin.buffer.read()))' >"$tmp/cut.xz" # no xz on a new machine
    tools/zecuda/random_model --like "$tmp/cut.xz" "$tmp/again.gguf" || fail "no model after a header"
    cmp "$tmp/model.gguf" "$tmp/again.gguf" || fail "another model than the one that the header is of"
    expect 1 tools/zecuda/random_model --like configs/demo.cfg "$tmp/none.gguf"
    said 'is no GGUF'
    [ ! -e "$tmp/none.gguf" ] || fail "half a file is left"
}

# What generating 6 tokens instead of 2 adds: the driver's calls (waits are repeated while a step lasts, so they are not
# counted) and launches. (A warm-up generates half as many before.)
more_tokens() { # SHAPE
    local n
    tools/zecuda/random_model "$1" q4_0 "$tmp/$1.gguf"
    for n in 2 6; do
        expect_gpu 0 '' "$stator" bench "$tmp/$1.gguf" -p 0 -n $n -r 1 --set devices.use=level_zero:0
        clean
        sed -n '/^ "total"/,/^ "sections"/p' "$tmp/log.json" | sed -n 's/^ *"\(ze[A-Za-z]*\)": \([0-9]*\).*/\1 \2/p' |
            grep -v zeFenceHostSynchronize | sort >"$tmp/calls.$n"
        total exec.kernel >"$tmp/kernels.$n"
    done
    join "$tmp/calls.2" "$tmp/calls.6" | awk '$3 != $2 { print $1, $3 - $2 }' >"$tmp/calls.$1"
    echo $(($(cat "$tmp/kernels.6") - $(cat "$tmp/kernels.2"))) >"$tmp/kernels.$1"
}

test_a_steps_calls_do_not_grow_with_layers() {
    need_driver
    need_python
    local steps more
    more_tokens tiny
    more_tokens tiny-6
    cmp -s "$tmp/calls.tiny" "$tmp/calls.tiny-6" ||
        fail "more calls with 2 layers: $(tr '\n' ' ' <"$tmp/calls.tiny"); with 6: $(tr '\n' ' ' <"$tmp/calls.tiny-6")"
    steps=$(sed -n 's/^zeCommandQueueExecuteCommandLists //p' "$tmp/calls.tiny")
    [ "${steps:-0}" -ge 4 ] || fail "4 tokens took ${steps:-no} more submits"
    printf '%s\n' "zeCommandQueueExecuteCommandLists $steps" "zeFenceReset $steps" | cmp -s - "$tmp/calls.tiny" ||
        fail "$steps steps made these calls: $(tr '\n' ' ' <"$tmp/calls.tiny")"
    # Seven launches of each layer: that these are seen shows that something is counted.
    more=$(($(cat "$tmp/kernels.tiny-6") - $(cat "$tmp/kernels.tiny")))
    [ $more = $((7 * 4 * steps)) ] || fail "4 layers more are $more launches more in $steps steps"
}

run_tests
