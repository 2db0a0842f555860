# `stator plan`: the table, the JSON, the hash and what it covers, refusals, and no byte of tensor data read.
. tests/lib.sh
cfg=configs/demo.cfg

hash_of() { "$stator" plan "$@" 2>/dev/null | sed -n 's/^plan //p'; }

# same_hash / other_hash ARGS...: compared with the demo's.
same_hash() {
    local got
    got=$(hash_of "$@")
    [ -n "$got" ] && [ "$got" = "$(hash_of $cfg)" ] || fail "another hash: $*"
}
other_hash() {
    local got
    got=$(hash_of "$@")
    [ -n "$got" ] && [ "$got" != "$(hash_of $cfg)" ] || fail "the same hash: $*"
}

test_table() {
    expect 0 "$stator" plan $cfg
    printed '^model stator demo \(llama\), context 1024, sequences 1, batch 64, logits rows 1$'
    printed '^place +arena +bytes +planned +lower bound +budget$'
    printed '^plan [0-9a-f]{32}$'
    # The totals are the sums of their rows, and the device's is a row of the host.
    awk '/^$/ { exit } # the arithmetic
        /^plan|^model|^place/ { next }
        { bytes = $1 ~ /^(cpu:0|host)$/ && $3 ~ /^[0-9]+$/ ? $3 : $2 }
        $1 == "total" { if (bytes != sum) exit 1; if (!device) device = sum; sum = 0; n++; next }
        /^ +cpu:0/ && bytes != device { exit 1 }
        { sum += bytes; rows++ }
        END { exit n == 2 && rows == 7 ? 0 : 1 }' "$tmp/out" || fail "the sums are wrong: $(cat "$tmp/out")"
}

# The host's total less 2 MiB, in bytes: a little too small for the demo (threads' stacks differ under sanitizers).
tight_limit() { echo $(($("$stator" plan $cfg --json 2>/dev/null | sed -n '/"host"/,$s/^    "total": \([0-9]*\),$/\1/p') - (2 << 20))); }

# value KEY: of the first "KEY": number; list KEY: all of them.
value() { sed -n "s/.*\"$1\": \([0-9]*\),*$/\1/p" "$tmp/out" | head -1; }

test_json() {
    expect 0 "$stator" plan $cfg --json
    local part
    for part in '^  "hash": "[0-9a-f]{32}",$' '^  "fits": true,$' '^  "devices": \[$' '"name": "cpu:0",$' '"budget": [0-9]+,$' '"total": [0-9]+,$' \
        '"arenas": \[$' '"name": "(weights|kv|scratch|exchange|staging|engine)",$' '"bytes": [1-9][0-9]*,$' '"lower_bound": [1-9][0-9]*,$' \
        '"slices": \[$' '^  "host": \{$' '"limit": [1-9][0-9]*,$'; do
        printed "$part"
    done
    ! grep -q '"short"' "$tmp/out" || fail "short in a plan that fits"
    [ "$(grep -cE '"name": "(weights|kv|scratch|exchange|staging|engine)"' "$tmp/out")" = 6 ] || fail "not six arenas"
    # Every arena is the sum of its slices and at least its lower bound; every total the sum of its arenas.
    awk -F'[:,]' '
        /"blocks"/ { if ($0 !~ /\[\]/) blocks = 1; next }
        blocks { if (/^ *\]/) blocks = 0; next }
        function done_slices() { if (in_slices) { if (slices != bytes || bound > bytes || bytes % 4096) bad = 1; in_slices = 0 } }
        /"total"/ { if (seen && sum != total) bad = 1; total = $2; sum = 0; seen++ }
        /"bytes"/ { bytes = $2; sum += $2 }
        /"lower_bound"/ { bound = $2 }
        /"slices"/ { in_slices = 1; slices = 0; next }
        in_slices && /^ *[0-9]+,?$/ { slices += $1 }
        in_slices && /\]/ { done_slices() }
        END { if (sum != total || seen != 2) bad = 1; exit bad }' "$tmp/out" || fail "the sums are wrong: $(cat "$tmp/out")"
    [ "\"$(hash_of $cfg)\"" = "$(sed -n 's/^  "hash": \(.*\),$/\1/p' "$tmp/out")" ] || fail "table and JSON differ in the hash"
}

test_short() {
    local limit
    limit=$(tight_limit)
    expect 3 "$stator" plan $cfg --set memory.host_limit=$limit --json
    local part
    for part in '"hash": "[0-9a-f]{32}"' '"fits": false' '"short": \{' '"where": "host: ' '"bytes": [1-9]' '"largest_context": [1-9]' \
        '"largest_batch": [0-9]' '"largest_sequences": [0-9]'; do
        printed "$part"
    done
    said 'does not fit: host needs'
    expect 3 "$stator" plan $cfg --set memory.host_limit=$limit
    printed '^host +staging '
    said 'does not fit: host needs .* too much .*context [0-9]+, batch [0-9]+ or sequences [0-9]+'
    said " memory.host_limit \\(--set\\) would have to be at least [0-9]+ bytes\\."
    # The figure that it names is right, and so is the type of keys and values that it offers.
    local need
    need=$(sed -n 's/.*would have to be at least \([0-9]*\) bytes.*/\1/p' "$tmp/err")
    expect 3 "$stator" plan $cfg --set memory.host_limit=$((need - 4096))
    said 'It fits with memory.kv_type = "q8_0"'
    expect 0 "$stator" plan $cfg --set memory.host_limit=$((need - 4096)) --set memory.kv_type=q8_0
    expect 0 "$stator" plan $cfg --set memory.host_limit="$need"
    expect 3 "$stator" plan $cfg --set memory.host_limit=$((need - 4096)) --json
    printed '"kv_type": "q8_0"'
}

# Names are from files and go to terminals.
test_names() {
    LC_ALL=C sed 's/stator demo/\x1B[31mred\r\nX/' configs/demo.gguf >"$tmp/escape.gguf"
    expect 0 "$stator" plan "$tmp/escape.gguf"
    printed '^model \?\[31mred\?\?X \(llama\), '
    LC_ALL=C sed 's/\x0B\x00\x00\x00\x00\x00\x00\x00stator demo/\x00\x00\x00\x00\x00\x00\x00\x00/' configs/demo.gguf >"$tmp/no name.gguf"
    truncate -s "$(stat -c %s configs/demo.gguf)" "$tmp/no name.gguf"
    expect 0 "$stator" plan "$tmp/no name.gguf"
    printed '^model no name \(llama\), '
    printf 'id,lower,\033[2J,size\n' >"$tmp/x.csv"
    expect 2 "$stator" pack "$tmp/x.csv"
    said "unknown column '\?\[2J'"
}

# The model's directory, the resolved config and the device's facts; no paths, threads, tiers, free memory.
test_hash() {
    cp configs/demo.gguf "$tmp/another name.gguf"
    same_hash $cfg
    same_hash $cfg --set "model.path=$tmp/another name.gguf"
    same_hash "$tmp/another name.gguf" --set memory.context=1024 --set memory.batch=64
    same_hash $cfg --set cpu.threads=7
    same_hash $cfg --set cpu.tier=scalar
    same_hash $cfg --set devices.use=cpu:0
    same_hash $cfg --set sampling.temperature=0.3 --set sampling.seed=4
    same_hash $cfg --set log.level=error
    (cd "$tmp" && ln -s "$OLDPWD/configs/demo.gguf" link.gguf)
    same_hash $cfg --set "model.path=$tmp/link.gguf"
    local set
    for set in context=512 context=1000 batch=65 sequences=2 logits_rows=2 kv_type=f32 kv_type=q8_0 kv_type_v=q8_0 kv_type_k=q8_0 staging=1MiB; do
        other_hash $cfg --set memory.$set
    done
    # One byte of the directory.
    LC_ALL=C sed 's/stator demo/stator dome/' configs/demo.gguf >"$tmp/renamed.gguf"
    ! cmp -s configs/demo.gguf "$tmp/renamed.gguf" || fail "nothing was changed"
    other_hash $cfg --set "model.path=$tmp/renamed.gguf"
    # Another byte of the weights is none of the plan's business.
    local size
    size=$(stat -c %s configs/demo.gguf)
    cp configs/demo.gguf "$tmp/weights.gguf"
    printf 'x' | dd of="$tmp/weights.gguf" bs=1 seek=$((size - 100)) conv=notrunc status=none
    ! cmp -s configs/demo.gguf "$tmp/weights.gguf" || fail "nothing was changed"
    same_hash $cfg --set "model.path=$tmp/weights.gguf"
}

# bytes_of_directory FILE: where its tensor data begins.
data_begin() { "$stator" inspect "$1" --json 2>/dev/null | sed -n 's/.*"offset": \([0-9]*\).*/\1/p' | sort -n | head -1; }

# A file with its directory and a hole for the weights plans to the same hash (so nothing of them is read); one whose data is
# cut off is refused by name, in plan and run alike.
test_no_tensor_data() {
    local size begin
    size=$(stat -c %s configs/demo.gguf)
    begin=$(data_begin configs/demo.gguf)
    [ "${begin:-0}" -gt 1000 ] && [ "$begin" -lt 1000000 ] || fail "the data begins at '$begin'"
    head -c "$begin" configs/demo.gguf >"$tmp/hole.gguf"
    truncate -s "$size" "$tmp/hole.gguf"
    same_hash $cfg --set "model.path=$tmp/hole.gguf"
    local cut
    for cut in $((size - 1)) $((size / 2)) "$begin"; do
        head -c "$cut" configs/demo.gguf >"$tmp/cut.gguf"
        expect 4 "$stator" plan "$tmp/cut.gguf"
        said "cut.gguf: .*tensor '.*truncated"
        [ ! -s "$tmp/out" ] || fail "a table came out"
    done
    command -v strace >/dev/null || return 0 # (the leak checker does not work under it)
    expect 0 env ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=read,pread64,preadv,readv -P "$(realpath configs/demo.gguf)" -P configs/demo.gguf -o "$tmp/trace" "$stator" plan $cfg
    # Header and directory, in chunks of 64 KiB.
    sed -n 's/.*pread64(.*, \([0-9]*\)) = \([0-9]*\)$/\1 \2/p' "$tmp/trace" |
        awk -v begin="$begin" '{ n++; if ($1 + $2 > begin + 65536) bad = 1 } END { exit bad || n == 0 }' ||
        fail "it read: $(grep read "$tmp/trace" | head -3)"
}

test_context_auto() {
    local limit
    limit=$(tight_limit)
    expect 0 "$stator" plan $cfg --set memory.context=auto --set memory.host_limit=$limit
    printed ', context [1-9][0-9]*,'
    local context
    context=$(sed -n 's/.*, context \([0-9]*\),.*/\1/p' "$tmp/out")
    [ "$context" -lt 1024 ] || fail "context $context"
    expect 3 "$stator" plan $cfg --set memory.context=$((context + 32)) --set memory.host_limit=$limit
    expect 0 "$stator" plan $cfg --set memory.context=auto
    printed ', context 1024,'
    expect 3 "$stator" plan $cfg --set memory.context=auto --set memory.host_limit=$((limit - (8 << 20)))
    # No more than the key takes, whatever the model was trained for.
    LC_ALL=C sed 's/\(llama.context_length\x04\x00\x00\x00\)\x00\x04\x00\x00/\1\xFF\xFF\xFF\x7F/' configs/demo.gguf >"$tmp/long.gguf"
    expect 0 "$stator" plan "$tmp/long.gguf" --device gpu0=1TiB --set memory.context=auto
    printed ', context 16777216,'
}

# memory.device_limit: a GPU has no more than that, and a model that would fit without it is told so.
test_device_limit() {
    local plan=("$stator" plan configs/demo.gguf --device g=1GiB --set memory.driver_reserve=1MiB) bytes
    expect 0 "${plan[@]}"
    printed '^ +total .* of 1.00 GiB$'
    expect 0 "${plan[@]}" --set memory.device_limit=64MiB
    printed '^ +total .* of 64.00 MiB$'
    expect 0 "${plan[@]}" --set memory.device_limit=2GiB
    printed '^ +total .* of 1.00 GiB$'
    expect 3 "${plan[@]}" --set memory.device_limit=4MiB
    said 'does not fit: g needs .* of 4.00 MiB.* memory.device_limit \(--set\) would have to be at least [0-9]+ bytes'
    bytes=$(sed -n 's/.*would have to be at least \([0-9]*\) bytes.*/\1/p' "$tmp/err")
    expect 0 "${plan[@]}" --set memory.device_limit=${bytes}B
    expect 3 "${plan[@]}" --set memory.device_limit=$((bytes - 4096))B
    # more of the plan lies in host memory
    expect 0 "${plan[@]}" --set memory.device_limit=4MiB --set memory.on_oom=spill
    printed '^spill of g: '
}

test_refusals() {
    expect 2 "$stator" plan
    expect 2 "$stator" plan "$tmp/none.gguf"
    expect 2 "$stator" plan $cfg --set memory.context=1025
    said 'trained for 1024'
    expect 5 "$stator" plan $cfg --set devices.use=level_zero:0
    if [ -c /dev/full ]; then
        local got=0
        "$stator" plan $cfg >/dev/full 2>"$tmp/err" || got=$?
        [ $got = 1 ] || fail "exit $got with a full disk"
    fi
}

# A server's plan has a row for what is around the engine, whose size follows from section server; other commands on the same
# config have it too, and the same hash.
test_edge() {
    local hash edge
    expect 0 "$stator" plan $cfg
    grep -q ' edge ' "$tmp/out" && fail "there is a server's row without a server"
    expect 0 "$stator" plan $cfg --set server.port=8080 --set server.max_body=auto # the defaults
    grep -q ' edge ' "$tmp/out" && fail "defaults count as a server's"
    expect 0 "$stator" plan $cfg --serve
    printed '^ +edge +40992768 '
    hash=$(sed -n 's/^plan //p' "$tmp/out")
    expect 0 "$stator" plan $cfg --set server.port=8081
    printed "^plan $hash$"
    expect 0 "$stator" config $cfg --set server.port=8081
    cp "$tmp/out" "$tmp/all.cfg"
    expect 0 "$stator" plan "$tmp/all.cfg"
    printed "^plan $hash$"
    expect 0 "$stator" plan $cfg --serve --set server.memory=5MiB
    printed '^ +edge +5242880 '
    expect 0 "$stator" plan $cfg --serve --set server.max_connections=65 # 24 KiB more
    printed '^ +edge +41017344 '
    expect 0 "$stator" run $cfg --set server.memory=5MiB --json --tokens '1 2' -n 2 --temp 0
    printed '"arena":"edge","planned":5242880,"allocated":5242880,'
}

# Copies of windows and states are planned for who goes on from them: chat and serve. Each command's plan has the hash that `plan`
# prints for it; a number in the config is for all.
test_checkpoints() {
    need_shared oracles/models/qwen35.gguf
    local model=$shared/oracles/models/qwen35.gguf hash chat all
    expect 0 "$stator" plan "$model"
    printed '^checkpoints: none for `run`, .* each takes '
    printed '^this is the plan of `stator run`, '
    hash=$(sed -n 's/^plan //p' "$tmp/out")
    expect 0 "$stator" run "$model" --tokens '1 2' -n 1 --expect-plan "$hash"
    expect 0 "$stator" plan "$model" --chat
    printed '^checkpoints: 4 of '
    printed '^this is the plan of `stator chat`$'
    chat=$(sed -n 's/^plan //p' "$tmp/out")
    [ "$hash" != "$chat" ] || fail "a chat's plan is a run's"
    expect 3 "$stator" run "$model" --tokens '1 2' -n 1 --expect-plan "$chat"
    expect 0 "$stator" plan "$model" --serve
    printed '^checkpoints: 4 of '
    printed '^this is the plan of `stator serve`'
    expect 2 "$stator" plan "$model" --serve --chat
    expect 0 "$stator" plan "$model" --json
    printed '^  "for": "run",$'
    cp "$tmp/out" "$tmp/old.json"
    expect 0 "$stator" plan "$model" --chat --diff "$tmp/old.json"
    printed 'checkpoints'
    expect 0 "$stator" plan "$model" --set server.checkpoints=3
    printed '^checkpoints: 3 of '
    all=$(sed -n 's/^plan //p' "$tmp/out")
    expect 0 "$stator" plan "$model" --chat --set server.checkpoints=3
    printed "^plan $all$"
    # What `config` prints is still for all commands.
    expect 0 "$stator" config "$model"
    printed '^ *checkpoints = "auto"; '
    cp "$tmp/out" "$tmp/all.cfg"
    expect 0 "$stator" plan "$tmp/all.cfg" --chat
    printed "^plan $chat$"
    expect 0 "$stator" plan "$tmp/all.cfg"
    printed "^plan $hash$"
    # A model with a KV cache alone has one plan for both.
    expect 0 "$stator" plan $cfg
    hash=$(sed -n 's/^plan //p' "$tmp/out")
    expect 0 "$stator" plan $cfg --chat
    printed "^plan $hash$"
}

run_tests
