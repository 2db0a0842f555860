# POST /slots/ID?action=save, restore, erase: a text is saved under a name, and goes on from there in another run.
. tests/lib.sh
. tests/lib_serve.sh

start() { # OPTION...
    serve --set memory.context=256 --set memory.sequences=2 --set "cache.kv_dir=\"$tmp/kv\"" "$@"
    ready
}
stop() {
    kill -TERM $pid
    ends 0
}
# slot ID ACTION [NAME]: the action; the answer is in $tmp/answer.
slot() {
    local body=''
    [ -z "${3:-}" ] || body="{\"filename\": \"$3\"}"
    raw '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' "POST /slots/$1?action=$2 HTTP/1.1" 'Host: localhost' 'Connection: close' "Content-Length: ${#body}" "$body"
}
field() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$tmp/answer"; }
# in_slot ID IDS N: a completion in a slot, as llama-server has it.
in_slot() {
    local body="{\"prompt\": [$2], \"n_predict\": $3, \"temperature\": 0, \"ignore_eos\": true, \"id_slot\": $1, \"cache_prompt\": true}"
    raw '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' 'POST /completion HTTP/1.1' 'Host: localhost' 'Connection: close' "Content-Length: ${#body}" "$body"
    answered 200 "\"id_slot\":$1[,}]"
    sed -n 's/.*"content":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$tmp/answer" >"$tmp/said"
}

# A second process reads what the first one writes, while that one runs.
test_two_processes_share_the_folder() {
    local ids writer
    ids=$(count 10 200)
    start
    in_slot 0 "$ids" 12
    mv "$tmp/said" "$tmp/first"
    slot 0 save talk.bin
    answered 200 '"n_saved":192'
    writer=$pid
    start
    trap 'kill -9 $pid $writer 2>/dev/null' EXIT
    grep -q 'kv.* is only read: another process writes to it' "$tmp/serve.err" || fail "it does not say so: $(cat "$tmp/serve.err")"
    complete "$ids" 12
    [ "$cached" = 192 ] || fail "$cached tokens of 200 were found"
    cmp "$tmp/first" "$tmp/said" || fail "another answer of the second process"
    slot 1 restore talk.bin
    answered 200 '"n_restored":192'
    slot 0 save mine.bin
    [ "$status" != 200 ] || fail "a reader saves"
    stop
    pid=$writer
    stop
}

test_a_slot_goes_on_in_another_run() {
    local ids other k
    ids=$(count 10 200) other=$(count 900 100)
    start
    in_slot 1 "$ids" 12
    mv "$tmp/said" "$tmp/first"
    in_slot 0 "$other" 12
    mv "$tmp/said" "$tmp/other"
    slot 1 save talk.bin
    answered 200 '"id_slot":1.*"filename":"talk.bin"'
    [ "$(field n_saved)" = 192 ] && [ "$(field n_text)" = 212 ] && [ "$(field n_written)" -gt 10000 ] || fail "saved: $(tail -1 "$tmp/answer")"
    grep -q '"timings":{"save_ms":[0-9.]*}' "$tmp/answer" || fail "no time: $(tail -1 "$tmp/answer")"
    slot 0 save 'another one'
    answered 200 '"n_saved":96'
    k=$(stat -c %a "$tmp/kv/"* | sort -u) && [ "$k" = 600 ] || fail "the files have modes $k"
    kill -9 $pid # what is saved is there
    wait $pid 2>/dev/null || true
    for k in "memory.sequences=1 --set memory.batch=48" "memory.sequences=3 --set cpu.threads=1 --set memory.batch=200"; do
        start --set ${k}
        slot 0 restore talk.bin
        answered 200 '"id_slot":0.*"filename":"talk.bin".*"n_restored":192,.*"n_read":[0-9]{5,}.*"timings":\{"restore_ms":'
        complete "$ids" 12
        [ "$cached" = 192 ] || fail "$cached tokens of 200 were restored"
        cmp "$tmp/first" "$tmp/said" || fail "another answer after a restore ($k)"
        slot 0 restore 'another one'
        answered 200 '"n_restored":96,'
        complete "$other" 12
        [ "$cached" = 96 ] || fail "$cached tokens of 100 were restored"
        cmp "$tmp/other" "$tmp/said" || fail "another answer to the other one ($k)"
        get /metrics
        grep -q '^stator_slots_restored_total 2' "$tmp/answer" || fail "no restores in the metrics"
        kill -9 $pid
        wait $pid 2>/dev/null || true
    done
}

test_erase_forgets() {
    local ids
    ids=$(count 10 200)
    start
    in_slot 0 "$ids" 12
    slot 0 erase
    answered 200 '"id_slot":0,"n_erased":212'
    slot 0 save x
    answered 400 'the slot has no text to save'
    complete "$ids" 12
    [ "$cached" = 0 ] || fail "$cached tokens are there after an erase"
    slot 1 erase
    answered 200 '"n_erased":0'
    stop
}

# What is damaged, cut, foreign or gone is told or computed again; never another answer.
test_damaged_saves() {
    local ids k n f
    ids=$(count 10 200)
    start
    in_slot 0 "$ids" 12
    mv "$tmp/said" "$tmp/first"
    slot 0 save good
    answered 200 '"n_saved":192'
    n=$(stat -c %s "$tmp/kv/good.save")
    for k in 0 40 90 100 $((n - 1)); do
        cp "$tmp/kv/good.save" "$tmp/kv/bad$k.save"
        printf '\377' | dd of="$tmp/kv/bad$k.save" bs=1 seek=$k conv=notrunc status=none
        head -c $k "$tmp/kv/good.save" >"$tmp/kv/cut$k.save"
        slot 0 restore bad$k
        answered 400 "the file of ..bad$k..* is damaged|was saved with another model"
        slot 0 restore cut$k
        answered 400 'is damaged'
    done
    : >"$tmp/kv/empty.save"
    slot 0 restore empty
    answered 400 'is damaged'
    cp "$tmp/kv/good.save" "$tmp/kv/open.save"
    chmod 666 "$tmp/kv/open.save"
    slot 0 restore open
    answered 400 'is damaged, or no save'
    mkfifo "$tmp/kv/fifo.save"
    ln -s good.save "$tmp/kv/link.save"
    for k in fifo link never; do
        slot 0 restore $k
        answered 400 'is damaged|nothing is saved as'
    done
    stop
    # another KV type is another text
    start --set memory.kv_type=q8_0
    slot 0 restore good
    answered 400 'was saved with another model, KV type'
    stop
    # a shorter context has no room for it
    start --set memory.context=128
    slot 0 restore good
    answered 400 'has 212 tokens, memory.context is 128'
    stop
    # blocks that are gone or damaged are computed again, from there on
    f=$(ls -t "$tmp/kv/"*-k.kv | head -3 | tail -1)
    printf 'x' | dd of="$f" bs=1 seek=5000 conv=notrunc status=none
    start
    slot 0 restore good
    answered 200 '"n_restored":[0-9]+'
    k=$(field n_restored)
    [ "$k" -lt 192 ] || fail "a damaged block was restored: $k"
    complete "$ids" 12
    cmp "$tmp/first" "$tmp/said" || fail "another answer after a damaged block ($k restored)"
    rm "$tmp/kv/"*-k.kv
    kill -9 $pid
    wait $pid 2>/dev/null || true
    start
    slot 0 restore good
    answered 200 '"n_restored":0,'
    complete "$ids" 12
    cmp "$tmp/first" "$tmp/said" || fail "another answer without blocks"
    stop
}

test_what_is_asked_wrongly() {
    local name
    start
    slot 2 save x
    answered 400 'there is no slot ."2.": memory.sequences is 2, so slots are 0 to 1'
    slot zero save x
    answered 400 'there is no slot'
    slot 0 keep x
    answered 400 'no action: POST /slots/ID.action=save'
    slot 0 save
    answered 400
    for name in ../x a/b '..' .hidden 'a..b' "$(printf 'a%.0s' $(seq 129))" 'a\\b' 'a\nb'; do
        slot 0 save "$name"
        answered 400 'the name of a save'
        slot 0 restore "$name"
        answered 400 'the name of a save'
    done
    slot 0 save good
    answered 400 'the slot has no text to save'
    get /slots/0
    answered 405
    stop
    [ -z "$(ls "$tmp" | grep -v -e kv -e answer -e request -e serve)" ] || fail "files beside the folder: $(ls "$tmp")"
    serve --set memory.context=256
    ready
    slot 0 save x
    answered 501 'Set cache.kv_dir'
    stop
}

test_a_full_disk_is_told() {
    local ids first
    ids=$(count 10 200)
    trap '' XFSZ
    first=$(ulimit -S -f)
    ulimit -S -f 40 # KiB: a block's file has 64
    start
    ulimit -S -f "$first"
    in_slot 0 "$ids" 12
    mv "$tmp/said" "$tmp/first"
    slot 0 save x
    answered 500 'a write to cache.kv_dir .* has failed'
    in_slot 0 "$ids" 12
    cmp "$tmp/first" "$tmp/said" || fail "another answer"
    stop
    [ ! -e "$tmp/kv/x.save" ] || fail "a save is there"
}

# Of two processes with one folder the first writes; the second restores what that has saved.
test_another_process_only_reads() {
    local ids first_pid first_port
    ids=$(count 10 200)
    start
    in_slot 0 "$ids" 12
    mv "$tmp/said" "$tmp/first"
    slot 0 save talk
    answered 200 '"n_saved":192'
    first_pid=$pid first_port=$port
    start --set memory.batch=40
    slot 1 restore talk
    answered 200 '"n_restored":192,'
    complete "$ids" 12
    [ "$cached" = 192 ] || fail "$cached tokens were restored"
    cmp "$tmp/first" "$tmp/said" || fail "another answer"
    slot 1 save mine
    answered 500 'another process writes to cache.kv_dir'
    stop
    pid=$first_pid port=$first_port
    slot 0 save talk
    answered 200 '"n_saved":192'
    stop
}

# The budget has room for one of the two texts: the blocks of the saved one go last.
test_saved_blocks_go_last() {
    local k
    start --set cache.kv_bytes=1MiB
    in_slot 0 "$(count 10 200)" 12
    slot 0 save first
    answered 200 '"n_saved":192'
    for k in 1 2 3 4 5 6 7 8; do
        complete "$(count $((10 + 220 * k)) 200)" 12
    done
    slot 0 restore first
    answered 200 '"n_restored":192,'
    stop
    start --set cache.kv_bytes=1MiB
    slot 1 restore first
    answered 200 '"n_restored":192,'
    stop
}

# try FILE: sends the request to a server that may be killed meanwhile. False: no whole answer came.
try() {
    : >"$tmp/answer"
    (exec 3<>"/dev/tcp/127.0.0.1/$port" && cat "$1" >&3 && timeout 60 cat <&3 >"$tmp/answer") 2>/dev/null || return 1
    status=$(head -1 "$tmp/answer" | sed -n 's,^HTTP/1\.1 \([0-9]*\) .*,\1,p')
    [ -n "$status" ] && [ "$(tail -c 1 "$tmp/answer")" = '}' ]
}
# request PATH BODY: into $tmp/request
request() { printf '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' "POST $1 HTTP/1.1" 'Host: localhost' 'Connection: close' "Content-Length: ${#2}" "$2" >"$tmp/request"; }
text_of() { sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$tmp/answer"; }

# Killed at a random moment of a request, again and again (STATOR_KILLS, 8): no answer is another one, no save is damaged.
test_kills_at_random_moments() {
    local i k n left restored=0 kills=${STATOR_KILLS:-8} body=()
    RANDOM=${STATOR_SEED:-7}
    serve --set memory.context=256 --set server.prefix_cache=false
    ready
    for k in 0 1 2 3; do
        body[k]="{\"prompt\": [$(count $((10 + 220 * k)) 200)], \"max_tokens\": 12, \"temperature\": 0, \"ignore_eos\": true, \"id_slot\": 0}"
        request /v1/completions "${body[k]}"
        try "$tmp/request" || fail "no answer"
        text_of >"$tmp/fresh.$k"
    done
    stop
    for ((i = 0; i < kills; i++)); do
        start --set memory.sequences=$((1 + RANDOM % 2)) --set memory.batch=$((40 + RANDOM % 200)) --set cpu.threads=$((1 + RANDOM % 2)) --set cache.kv_bytes=$((1 + RANDOM % 2))MiB
        left=$((2 + RANDOM % 8)) # requests before the one that is killed
        for ((n = 0; n <= left; n++)); do
            case $((n % 3)) in
            0) k=$((RANDOM % 4)) && request '/slots/0?action=restore' "{\"filename\": \"text $k\"}" ;;
            1) request /v1/completions "${body[k]}" ;;
            2) request '/slots/0?action=save' "{\"filename\": \"text $k\"}" ;;
            esac
            [ $n -lt $left ] || (sleep 0.00$((RANDOM % 10)) && kill -9 $pid) &
            if ! try "$tmp/request"; then
                [ $n = $left ] || fail "kill $i: no answer: $(tail -3 "$tmp/serve.err")"
                break
            fi
            if [ "$status" != 200 ]; then
                grep -q 'nothing is saved as' "$tmp/answer" || fail "kill $i: $(tail -1 "$tmp/answer")"
            elif [ $((n % 3)) = 0 ]; then
                restored=$((restored + $(field n_restored)))
            elif [ $((n % 3)) = 1 ]; then
                text_of | cmp - "$tmp/fresh.$k" || fail "kill $i: another answer to prompt $k"
            fi
        done
        wait $pid 2>/dev/null
    done
    [ $restored -gt $((32 * kills)) ] || fail "only $restored tokens restored in $kills kills"
}

run_tests
