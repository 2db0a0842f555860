# cache.kv_dir: a server goes on from what the one before it has left, also after kill -9, with the same answers.
. tests/lib.sh
. tests/lib_serve.sh

start() { # OPTION...
    serve --set memory.context=256 --set "cache.kv_dir=\"$tmp/kv\"" "$@"
    ready
}
metric() { sed -n "s/^stator_$1 \([0-9.e+-]*\).*/\1/p" "$tmp/answer" | tr -d '\r'; }

test_a_server_goes_on_from_files() {
    local ids mode
    ids=$(count 10 200)
    start
    complete "$ids" 12
    [ "$cached" = 0 ] || fail "$cached tokens are there at first"
    mv "$tmp/said" "$tmp/first"
    kill -TERM $pid
    ends 0
    mode=$(stat -c %a "$tmp/kv") && [ "$mode" = 700 ] || fail "the folder has mode $mode"
    mode=$(stat -c %a "$tmp/kv/"*.kv | sort -u) && [ "$mode" = 600 ] || fail "the files have mode $mode"
    start --set memory.batch=48 --set memory.sequences=2
    complete "$ids" 12
    [ "$cached" = 192 ] || fail "$cached tokens of 200 come from files"
    cmp "$tmp/first" "$tmp/said" || fail "another answer from files"
    get /metrics
    [ "$(metric kv_hits_total)" = 1 ] && [ "$(metric kv_tokens_total)" = 192 ] && [ "$(metric kv_files_read_total)" = 6 ] &&
        grep -q '^stator_kv_saved_seconds [0-9]' "$tmp/answer" || fail "no time saved in the metrics"
    [ "$(metric kv_files)" = 6 ] && [ "$(metric kv_read_bytes_total)" -gt 0 ] ||
        fail "the metrics say: $(grep '^stator_kv' "$tmp/answer" | tr '\r\n' '  ')"
    kill -TERM $pid
    ends 0
}

# Killed while it writes: the context of one sequence is the whole cache, so every further prompt drives blocks out to files.
test_kill_9_loses_nothing_but_the_cache() {
    local i k found=0
    serve --set memory.context=256 --set server.prefix_cache=false
    ready
    for k in 0 1 2; do
        complete "$(count $((10 + 300 * k)) 200)" 12
        mv "$tmp/said" "$tmp/fresh.$k"
    done
    kill -TERM $pid
    ends 0
    for i in 1 2 3 4 5 6; do
        start
        for k in 0 1 2 $((i % 3)); do
            complete "$(count $((10 + 300 * k)) 200)" 12
            cmp "$tmp/fresh.$k" "$tmp/said" || fail "round $i: another answer to prompt $k, of which $cached tokens were there"
            found=$((found + cached))
        done
        kill -9 $pid
        wait $pid 2>/dev/null
    done
    [ $found -gt 500 ] || fail "only $found tokens were found after the kills"
}

test_a_full_disk_is_told() {
    local ids first
    ids=$(count 10 200)
    trap '' XFSZ
    first=$(ulimit -S -f)
    ulimit -S -f 40 # KiB: a block's file has 64
    start
    ulimit -S -f "$first"
    complete "$ids" 12
    mv "$tmp/said" "$tmp/first"
    kill -TERM $pid
    ends 0
    grep -q 'cache.kv_dir: writing a block in .* failed' "$tmp/serve.err" || fail "nothing is said: $(tail -3 "$tmp/serve.err")"
    start
    complete "$ids" 12
    [ "$cached" = 0 ] || fail "$cached tokens are there"
    cmp "$tmp/first" "$tmp/said" || fail "another answer"
    kill -TERM $pid
    ends 0
}

test_the_plan_shows_the_buffers() {
    expect 0 "$stator" plan configs/demo.cfg --set cache.kv_dir=/tmp/kv
    printed '^ +kv_disk +1048576 '
    expect 0 "$stator" plan configs/demo.cfg --set cache.kv_dir=/tmp/kv --device gpu0=8GiB --json
    printed '"blocks for files"'
    expect 0 "$stator" help config
    printed 'cache.kv_dir  .path.'
    printed 'conversations; only this user'
}

# The tool that measures it, on the demo.
test_bench() {
    expect 0 tools/bench_kv_disk --stator "$stator" --rounds 1 --tokens 200 --generate 40
    printed '^demo.gguf, prompt of 200 tokens, 192 of them from files, '
    printed '^\| after a restart, from files \| [0-9.]+ s'
    printed '^\| the same, blocks written meanwhile \| [0-9.]+ s .*%\) \|$'
    printed '^\| files written meanwhile \| [1-9]'
}

run_tests
