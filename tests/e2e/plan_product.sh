# `stator plan` as a product: devices that are not here, the arithmetic, pictures, the diff, the refusal, and a run inside its plan.
. tests/lib.sh
cfg=configs/demo.cfg
gpus="--device gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s --device gpu1=16GiB,bandwidth=256GB/s"

# number KEY: the first one in the JSON in $tmp/out.
number() { sed -n "s/.*\"$1\": \([0-9]*\),*$/\1/p" "$tmp/out" | head -1; }

test_table() {
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus --set memory.host_limit=1GiB
    printed '^gpu0 +weights +[0-9]+ .* [0-9.]+%$'
    printed '^gpu1 +weights '
    [ "$(grep -cE '^ +driver +268435456 ' "$tmp/out")" = 2 ] || fail "the drivers' reserves are no rows"
    printed '^ +total +[0-9]+ .*% of 24.00 GiB$'
    printed '^weights on gpu0: layers 0 to [0-9]+, .* in the file, .* in panels .* padding$'
    printed '^weights on gpu1: layers [0-9]+ to 7,'
    printed '^KV: .* a token; planned are 1024 tokens, 1 sequence of 1024$'
    printed '^KV: what is free would hold [0-9]+ tokens more; at most 64 sequences of full length fit \(memory.batch takes no more\)$'
    printed '^scratch on gpu0: step [0-9]+ of [0-9]+ is the fullest: residual '
    printed '^    gpu. +token_embd.weight '
    expect 0 "$stator" plan $cfg --device gpu0=16MiB --set memory.driver_reserve=1MiB
    printed '^KV: what is free would hold 3[0-9]+ tokens more; at most 4 sequences of full length fit$'
    expect 0 "$stator" plan $cfg --device gpu0=9MiB --device gpu1=8MiB --set memory.driver_reserve=1MiB
    printed '^KV: what is free would hold [0-9]+ tokens more; at most [0-9] sequences of full length fit \(the layers shared out anew\)$'
    expect 0 "$stator" plan $cfg --device gpu0=7MiB --set memory.driver_reserve=1MiB --set memory.on_oom=spill
    printed '^KV: nothing is free: more of it would be spilled$'
    expect 0 "$stator" plan $cfg --verbose
    printed '^host, engine: 5 slices of '
}

test_json() {
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus --json
    local part
    for part in '"format": 1' '"name": "gpu0"' '"name": "gpu1"' '"name": "driver"' '"kv_bytes_per_token": [1-9]' '"in_file": [1-9]' \
        '"gpu0.max_alloc": 20401094656' '"gpu1.bandwidth": 256000000000' '"split": "auto"' '"name": "blk.0.attn_q.weight"' \
        '"name": "landing"' '"name": "outgoing"' '"first": [1-9]' '"end": [1-9]' '"room_tokens": [1-9]' '"sequences_fit": [1-9]'; do
        printed "$part"
    done
    [ "$(grep -c '"name": "cpu:0"' "$tmp/out")" = 0 ] || fail "the CPU is in a plan of two GPUs"
    # Everything twice is the same, to the byte.
    local fixed="--set memory.host_limit=1GiB"
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus $fixed --json
    cp "$tmp/out" "$tmp/first"
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus $fixed --json --set cpu.threads=5
    cmp -s "$tmp/out" "$tmp/first" || fail "two plans differ: $(diff "$tmp/out" "$tmp/first" | head -5)"
}

# A tied token_embd is on the first and on the last device; without a split once.
test_tied() {
    need_shared oracles/models/llama-tied.gguf
    expect 0 "$stator" plan "$shared/oracles/models/llama-tied.gguf" --device a=1GiB --json
    [ "$(grep -c '"name": "token_embd.weight"' "$tmp/out")" = 1 ] || fail "not once on one device"
    expect 0 "$stator" plan "$shared/oracles/models/llama-tied.gguf" --device a=1GiB --device b=1GiB --json
    [ "$(grep -c '"name": "token_embd.weight"' "$tmp/out")" = 2 ] || fail "not twice on two devices"
}

layers() { grep -A2 '"layers"' "$tmp/out" | sed -n 's/.*"count": \([0-9]*\).*/\1/p' | tr '\n' ' '; }

test_split() {
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=1GiB --json
    [ "$(layers)" = "4 4 " ] || fail "layers $(layers)"
    expect 0 "$stator" plan $cfg --device a=1GiB,bandwidth=600GB/s --device b=1GiB,bandwidth=200GB/s --json
    [ "$(layers)" = "6 2 " ] || [ "$(layers)" = "7 1 " ] || fail "layers by bandwidth: $(layers)"
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=1GiB --set devices.split=3,1 --json
    [ "$(layers)" = "6 2 " ] || fail "layers $(layers)"
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=1GiB --device c=1GiB --set devices.split=1,2,5 --json
    [ "$(layers)" = "1 2 5 " ] || fail "layers $(layers)"
    # A small fast device gets what it can hold.
    expect 0 "$stator" plan $cfg --device a=4MiB,bandwidth=900GB/s --device b=1GiB,bandwidth=100GB/s --set memory.driver_reserve=1MiB --json
    [ "$(layers | cut -d' ' -f1)" -lt 4 ] || fail "layers $(layers)"
    # There is a split that fits: the first look's error is made good at once, not bit by bit.
    expect 0 "$stator" plan $cfg --device a=5113KiB,bandwidth=900GB/s --device b=6648KiB --set memory.driver_reserve=1MiB \
        --set memory.context=256
    expect 0 "$stator" plan $cfg --device a=5271KiB --device b=3302KiB --device c=4840KiB --device d=4378KiB \
        --set memory.driver_reserve=1MiB --set memory.context=512
    expect 2 "$stator" plan $cfg --device a=1GiB --device b=1GiB --set devices.split=1,2,5
    expect 2 "$stator" plan $cfg --device a=1GiB --device a=1GiB
    expect 2 "$stator" plan $cfg --device a
    said 'NAME=SIZE'
    expect 0 "$stator" plan $cfg --device a=1024TiB
    expect 2 "$stator" plan $cfg --device a=1025TiB
    said 'no size from 1 MiB to 1024 TiB'
    expect 2 "$stator" plan $cfg --device host=1GiB
    said 'a place "host" of its own'
}

# rate KEY: of the estimate in the JSON in $tmp/out.
rate() { sed -n "s/.*\"$1\": \([0-9.e+]*\),*$/\1/p" "$tmp/out" | head -1; }

# near A B: within 2%.
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0.98 * b && a < 1.02 * b) }' || fail "$1 is not about $2"; }

# An estimate follows from the bytes that a token reads, links and hops.
test_speed() {
    local bytes kv read fast=bandwidth=1GB/s,link=1000TB/s,hop=1ns slow=bandwidth=1GB/s,link=1000TB/s,hop=1ms
    local tensor=(--set devices.split=tensor --json)
    # All weights, as the embedding is also the output matrix, and the cache of 1024 tokens.
    expect 0 "$stator" plan $cfg --device a=1GiB,$fast --json
    bytes=$(number packed) kv=$(number kv_bytes_per_token)
    ! grep -q '"estimate"' "$tmp/out" || fail "an estimate for one device"
    expect 0 "$stator" plan $cfg --device a=1GiB,$fast --device b=1GiB,$fast "${tensor[@]}"
    near "$(rate layers_tokens_per_second)" "$(awk "BEGIN { print 1e9 / ($bytes + 1024 * $kv) }")"
    printed '"exchanges_per_token": 34,'
    printed '"route": "by probe"'
    [ "$(number given_bytes_per_token)" -gt 0 ] || fail "nothing is given"
    # Two devices read a half each, but for what is not divided. They wait for 34 hops of 1 ms.
    read=$(rate tensor_tokens_per_second)
    awk "BEGIN { r = $read / $(rate layers_tokens_per_second); exit !(r > 1.7 && r < 2) }" || fail "tensor $read"
    expect 0 "$stator" plan $cfg --device a=1GiB,$slow --device b=1GiB,$slow "${tensor[@]}"
    near "$(rate tensor_tokens_per_second)" "$(awk "BEGIN { print 1 / (34e-3 + 1 / $read) }")"
    # 45 KiB a token over a link of 1 MiB a second, or twice if they go through the host.
    expect 0 "$stator" plan $cfg --device a=1GiB,bandwidth=1TB/s,link=1MiB/s,hop=1ns --device b=1GiB,bandwidth=1TB/s "${tensor[@]}" \
        --set devices.split=tensor:7,1
    # (the last one: it has the larger part, and gets most of the logits)
    bytes=$(sed -n 's/.*"received_bytes_per_\(token\|row\)": \([0-9]*\),$/\2/p' "$tmp/out" | tail -2 | awk '{ s += $1 } END { print s }')
    near "$(rate tensor_tokens_per_second)" "$(awk "BEGIN { print 1 / ($bytes / 1048576 + 34 * 12e-6) }")"
    expect 0 "$stator" plan $cfg --device a=1GiB,bandwidth=1TB/s,link=1MiB/s,hop=1ns --device b=1GiB,bandwidth=1TB/s "${tensor[@]}" \
        --set devices.split=tensor:7,1 --set transfer.mode=staged
    near "$(rate tensor_tokens_per_second)" "$(awk "BEGIN { print 1 / (2 * $bytes / 1048576 + 68 * 12e-6) }")"
    # Cards by name; what no fact says is marked.
    expect 0 "$stator" plan $cfg --device a=b60 --device b=b60 --device c=b60 --device d=b60
    printed '^speed, estimated: layers [0-9.]+ tokens/s, tensor [0-9.]+, tensor in 2 groups [0-9.]+$'
    printed 'with 31.5 GB/s from device to device and 12.0 us a hop \(assumed\)'
    printed '% of 24.00 GiB$'
    expect 0 "$stator" plan $cfg --device a=b70,hop=5us --device b=1GiB,bandwidth=1GB/s,hop=0.5ms
    printed 'with 15.8 GB/s from device to device \(assumed\) and 500.0 us a hop;'
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=b60
    ! grep -q '^speed' "$tmp/out" || fail "a speed without a bandwidth"
    expect 2 "$stator" plan $cfg --device a=b60,hop=5
    said 'hop is given twice or is no time'
    expect 2 "$stator" plan $cfg --device a=b61
    said 'a known card \(a770, b580, b60, b70\)'
    expect 2 "$stator" plan $cfg --device cpu:0=b60
}

# "auto" takes tensor where that is faster and possible, and says why not.
test_auto_split() {
    local slow=(--device a=1GiB,bandwidth=1GB/s --device b=1GiB,bandwidth=1GB/s)
    expect 0 "$stator" plan $cfg "${slow[@]}" --set devices.split=tensor --json
    grep -o '"hash": .*' "$tmp/out" >"$tmp/tensor"
    expect 0 "$stator" plan $cfg "${slow[@]}" --json
    grep -o '"hash": .*' "$tmp/out" | cmp -s - "$tmp/tensor" || fail "not the plan by tensor"
    printed '"split": "tensor"'
    printed '"choice": "tensor: an estimated 2[0-9.]+ tokens/s, by layers 1[0-9.]+"'
    said 'devices.split = "auto": tensor: an estimated'
    # A tenth faster is enough, less is not: half of 8.2 ms, and 34 hops.
    expect 0 "$stator" plan $cfg --device a=1GiB,bandwidth=1GB/s,hop=85us --device b=1GiB,bandwidth=1GB/s
    printed '^devices.split = "auto" takes tensor: '
    expect 0 "$stator" plan $cfg --device a=1GiB,bandwidth=1GB/s,hop=110us --device b=1GiB,bandwidth=1GB/s
    printed '^devices.split = "auto" takes layers: an estimated 1[12][0-9.]+ tokens/s, by tensor 1[23][0-9.]+$'
    expect 0 "$stator" plan $cfg "${slow[@]}" --set devices.split=1,1
    ! grep -q 'auto" takes' "$tmp/out" || fail "a choice without \"auto\""
    expect 0 "$stator" plan $cfg "${slow[@]}" --set memory.on_oom=spill
    printed 'takes tensor: '
    expect 0 "$stator" plan $cfg --device a=3MiB,bandwidth=1GB/s,hop=1us --device b=3MiB,bandwidth=1GB/s --set memory.driver_reserve=1MiB \
        --set memory.on_oom=spill
    printed 'takes layers: by tensor it would spill$'
    expect 3 "$stator" plan $cfg --device a=8600KiB,bandwidth=1GB/s --device b=3900KiB,bandwidth=1GB/s --set memory.driver_reserve=1MiB
    printed 'takes layers: by tensor it does not fit into b$'
    # Two KV heads on four devices: each has half of K and V. Of two groups each has half of half the layers.
    local four=() name
    for name in a b c d; do four+=(--device $name=15MiB,bandwidth=1GB/s,link=1000TB/s,hop=1ns); done
    expect 0 "$stator" plan $cfg "${four[@]}" --set memory.driver_reserve=1MiB
    printed '^devices.split = "auto" takes tensor: '
    expect 0 "$stator" plan $cfg "${four[@]}" --set memory.driver_reserve=1MiB --set memory.sequences=16
    printed '^devices.split = "auto" takes tensor in 2 groups: an estimated 2[0-9.]+ tokens/s, by layers 1[0-9.]+$'
    printed '^weights on d: share 2 of 2 of layers 4 to 7,'
}

test_refusal() {
    expect 3 "$stator" plan $cfg --device gpu0=6MiB --set memory.driver_reserve=1MiB
    said 'does not fit: gpu0 needs .* of 6.00 MiB, .* too much \(largest arena there: gpu0: weights\)'
    expect 3 "$stator" plan $cfg --device gpu0=6MiB --set memory.driver_reserve=1MiB --json
    [ "$(number largest_context)" = 0 ] || fail "a context of $(number largest_context) in 6 MiB"
    printed '"where": "gpu0: weights"'
    expect 3 "$stator" plan $cfg --device a=3MiB --device b=3MiB --set memory.driver_reserve=1MiB
    said 'a needs .*too much \(largest arena there: a: weights\), and b [0-9.]+ MiB\.'
    said ' No smaller context, batch or number of sequences alone would fit; wanted 1024, 64, 1\.'
    # As many as there is room for, and how many more: nothing is cut.
    local many=''
    for i in 0 1 2 3 4 5 6 7; do many="$many --device a_long_name_of_a_gpu_$i=1MiB"; done
    # shellcheck disable=SC2086
    expect 3 "$stator" plan $cfg $many --set memory.driver_reserve=1MiB
    said ', and a_long_name_of_a_gpu_1 [0-9.]+ [KM]iB(, and a_long_name_of_a_gpu_[0-9] [0-9.]+ [KM]iB)*, and [0-9] more places\. '
    # What it offers fits.
    expect 3 "$stator" plan $cfg --device gpu0=9MiB --set memory.driver_reserve=1MiB --json
    local context
    context=$(number largest_context)
    [ "$context" -gt 0 ] || fail "no context fits"
    expect 0 "$stator" plan $cfg --device gpu0=9MiB --set memory.driver_reserve=1MiB --set memory.context="$context"
    expect 3 "$stator" plan $cfg --device gpu0=9MiB --set memory.driver_reserve=1MiB --set memory.context=$((context + 32))
    # Slices that are too small: which arena, where, by how much; what is offered fits.
    local slices="--set memory.batch=512 --device gpu0=1GiB,max_alloc=1MiB"
    # shellcheck disable=SC2086
    expect 3 "$stator" plan $cfg $slices
    said 'gpu0: scratch needs [0-9.]+ MiB that can.t be cut, slices there hold 1.00 MiB, [0-9.]+ MiB too much: .*lower memory.batch'
    printed '^         scratch +[0-9]+ '
    # shellcheck disable=SC2086
    expect 3 "$stator" plan $cfg $slices --json
    printed '"where": "gpu0: scratch"'
    [ "$(number slice_limit)" = 1048576 ] || fail "slice limit $(number slice_limit)"
    [ "$(number slice_bytes)" -gt 1048576 ] || fail "slice bytes $(number slice_bytes)"
    local batch
    batch=$(number largest_batch)
    [ "$batch" -gt 0 ] || fail "no batch fits"
    expect 0 "$stator" plan $cfg --device gpu0=1GiB,max_alloc=1MiB --set memory.batch="$batch"
    expect 3 "$stator" plan $cfg --device gpu0=1GiB,max_alloc=1MiB --set memory.batch=$((batch + 1))
    expect 3 "$stator" plan $cfg --device gpu0=64GiB,max_alloc=1MiB --set memory.batch=1024 --set memory.sequences=1024 --json
    printed '"where": "gpu0: kv"'
    [ "$(number slice_bytes)" = 134217728 ] || fail "a unit of KV has $(number slice_bytes) bytes"
    # A run that does not fit ends before it reads a weight: the file has none.
    local begin
    begin=$("$stator" inspect configs/demo.gguf --json 2>/dev/null | sed -n 's/.*"offset": \([0-9]*\).*/\1/p' | sort -n | head -1)
    head -c "$begin" configs/demo.gguf >"$tmp/hole.gguf"
    truncate -s "$(stat -c %s configs/demo.gguf)" "$tmp/hole.gguf"
    expect 3 "$stator" run "$tmp/hole.gguf" --set memory.host_limit=20MiB -p x
    said 'does not fit'
    expect 3 "$stator" run $cfg -p x -n 1 --expect-plan 00000000000000000000000000000000
    said "the plan's hash is"
}

test_svg() {
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus --svg "$tmp/plan.svg"
    local part
    for part in '^<svg xmlns="http://www.w3.org/2000/svg"' '^</svg>$' 'prefers-color-scheme:dark' '<title>blk.0.ffn_h$' '<title>blk.7.kv$' \
        '<title>landing$' 'feed-forward' 'lower bound' 'reserved for the driver'; do
        grep -qE "$part" "$tmp/plan.svg" || fail "the picture has no /$part/"
    done
    # Every block of the JSON is a box.
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus --json
    local blocks boxes arenas
    blocks=$(grep -c '"slice"' "$tmp/out")
    arenas=$(grep -c '"lower_bound"' "$tmp/out")
    boxes=$(grep -c 'class="b r' "$tmp/plan.svg")
    [ "$boxes" = $((blocks + arenas)) ] || fail "$boxes boxes for $blocks blocks and $arenas arenas"
    # A step is on the axis once, where it is.
    [ "$(grep -cE '^<text x="110.0".*>step 0</text>$' "$tmp/plan.svg")" = 3 ] || fail "not three axes"
    grep -oE 'class="soft" text-anchor="[a-z]+">(step )?[0-9]+<' "$tmp/plan.svg" | grep -oE '[0-9]+<' | tr -d '<' |
        awk 'NR > 1 && $1 != 0 && $1 <= last { bad = 1 } { last = $1 } END { exit bad }' || fail "a step is on an axis twice"
    ! command -v xmllint >/dev/null || xmllint --noout "$tmp/plan.svg" || fail "not well-formed"
    ! grep -q 'the budget ends here' "$tmp/plan.svg" || fail "a line at the budget's end in a plan that fits"
    expect 1 "$stator" plan $cfg --svg "$tmp/none/plan.svg"
    said '--svg .*none/plan.svg can.t be written: No such file'
    # shellcheck disable=SC2086
    expect 0 "$stator" plan $cfg $gpus --svg -
    [ "$(head -c 4 "$tmp/out") $(tail -n 1 "$tmp/out")" = "<svg </svg>" ] || fail "--svg - prints more than the picture"
    [ "$(grep -c 'class="b r' "$tmp/out")" = "$boxes" ] || fail "--svg - is another picture"
    expect 2 "$stator" plan $cfg --svg - --json
    if [ -c /dev/full ]; then
        expect 1 "$stator" plan $cfg --svg /dev/full
        said '--svg /dev/full can.t be written: No space left'
        ln -s /dev/full "$tmp/full.svg"
        expect 1 "$stator" plan $cfg --svg "$tmp/full.svg"
        [ -L "$tmp/full.svg" ] || fail "it removed what is not a file"
    fi
    expect 3 "$stator" plan $cfg --device a=6MiB --device b=300MiB --set devices.split=7,1 --svg "$tmp/over.svg"
    [ "$(grep -c '<title>the budget ends here: 6.00 MiB</title>' "$tmp/over.svg")" = 1 ] || fail "nothing shows where the budget ends"
}

test_ascii() {
    expect 0 "$stator" plan $cfg --ascii
    printed '^cpu:0, scratch: .*offset against step$'
    printed '^ +[0-9.]+ KiB \|[ANFTKRo.]+\|$'
    printed '^  slice  0 \|[ANFTKRo.]{64}\| 5.86 MiB$'
    printed '^A attention, F feed-forward'
    expect 2 "$stator" plan $cfg --ascii --json
}

test_diff() {
    "$stator" plan $cfg --json >"$tmp/old.json" 2>/dev/null
    expect 0 "$stator" plan $cfg --diff "$tmp/old.json"
    printed '^the same plan: [0-9a-f]{32}$'
    expect 0 "$stator" plan $cfg --set memory.context=512 --set memory.batch=128 --diff "$tmp/old.json"
    printed '^  context 1024 -> 512$'
    printed '^  batch 64 -> 128$'
    printed '^  cpu:0 +kv +2.00 MiB -> +1.00 MiB +-1.00 MiB   from context 1024 -> 512$'
    printed '^  cpu:0 +scratch .* \+.*   from batch 64 -> 128$'
    ! grep -q '^  cpu:0 *weights' "$tmp/out" || fail "the weights did not change"
    expect 0 "$stator" plan $cfg --device gpu0=1GiB --diff "$tmp/old.json"
    printed '^  gpu0.memory none -> 1073741824$'
    printed '^  cpu:0.kind cpu -> none$'
    printed '^  gpu0 +weights +0 B -> .*   from gpu0 \(new\), cpu:0 \(gone\)$'
    printed '^  cpu:0 +weights .*-> +0 B .*   from gpu0 \(new\), cpu:0 \(gone\)$'
    printed '^  host +total +[^ ]+ [KM]iB -> +[^ ]+ [KM]iB +[-+][^ ]+ [KM]iB$'
    # Every arena that differs has a cause.
    ! grep -E '^  .* -> .* [-+][0-9.]+ [KMG]?i?B$' "$tmp/out" | grep -v total || fail "a change without a cause"
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=1GiB --set devices.split=3,1 --json
    cp "$tmp/out" "$tmp/split.json"
    expect 0 "$stator" plan $cfg --device a=1GiB --device b=1GiB --set devices.split=1,1 --diff "$tmp/split.json"
    printed '^  a +total .*   6 -> 4 layers$'
    # The same plan in less memory.
    expect 3 "$stator" plan $cfg --set memory.host_limit=20MiB --diff "$tmp/old.json"
    printed '^the same plan: '
    printed '^it fitted, and now does not$'
    for text in '' '{' 'garbage' '{"format": 1}' '[1,2,3]' '{"format": 9}'; do
        printf '%s' "$text" >"$tmp/bad.json"
        expect 2 "$stator" plan $cfg --diff "$tmp/bad.json"
        said 'bad.json: '
    done
    expect 2 "$stator" plan $cfg --diff "$tmp/none.json"
}

test_run_needs_the_device() {
    expect 5 "$stator" run $cfg --set devices.use=level_zero:0 -p x
    expect 5 "$stator" run $cfg --set 'devices.use="cpu:0,level_zero:0"' -p x
    said level_zero:0
}

run_tests
