# Mixture of experts in the plan: their matrices, routes and rows are in it, on CPUs and GPUs, and scratch does not grow with the
# context.
. tests/lib.sh
. tests/lib_serve.sh
. tests/lib_gpu.sh

scratch() { # DEVICE CONTEXT
    expect 0 "$stator" plan "$shared/oracles/models/qwen3moe.gguf" $1 --set memory.context=$2 --set memory.batch=64 --json
    grep -o '"name": "scratch"[^}]*' <(tr -d '\n' <"$tmp/out") | grep -oE '"bytes": *[0-9]+' | head -1
}

test_scratch_of_any_context() {
    need_shared oracles/models/qwen3moe.gguf
    local device few many
    for device in '' '--device gpu0=15GiB'; do
        few=$(scratch "$device" 64)
        many=$(scratch "$device" 512)
        [ -n "$few" ] || fail "no scratch in the plan: $(head -c 600 "$tmp/out")"
        [ "$few" = "$many" ] || fail "$device: scratch $few with a context of 64, $many with 512"
        for name in blk.0.ffn_gate_exps.weight blk.0.ffn_gate_inp.weight blk.0.ffn_routes blk.0.ffn_experts_h; do
            grep -q "$name" "$tmp/out" || fail "$device: the plan has no $name"
        done
    done
}

# Of experts a step reads each that is chosen once: E (1 - (1 - used / E)^n) of them are to be expected of n tokens.
test_bytes_of_parallel_sequences() {
    need_shared oracles/models/qwen3moe.gguf
    local n
    for n in 1 4; do
        expect 0 "$stator" bench "$shared/oracles/models/qwen3moe.gguf" -p 0 -n 4 -r 1 --parallel $n --roofline -o json
        awk -F '[:,]' -v n=$n '/"step_read_bytes"/ { w = $2 } /"context_read_bytes"/ { c = $2 } /"experts_read_bytes"/ { x = $2 }
            /"token_read_bytes"/ { read = $2 } /"token_needed_bytes"/ { needed = $2 }
            END { share = '"$(share_of_experts)"'
                want = ((w - x) + x / share * (1 - (1 - share) ^ n)) / n + 3.5 * c
                exit !(x > 0 && w > x && needed > 0 && needed <= read && (want / read - 1) ^ 2 < 1e-8) }' "$tmp/out" ||
            fail "$n sequences: $(cat "$tmp/out")"
    done
}
share_of_experts() { # used / all, as the file has them
    "$stator" inspect "$shared/oracles/models/qwen3moe.gguf" | awk '/qwen3moe.expert_count/ { all = $NF } /qwen3moe.expert_used_count/ { used = $NF }
        END { print used " / " all }'
}

# Matrices of experts that are cut between them: what a token brings over the bus is expected to be less than what it can be.
test_spilled() {
    need_shared oracles/models/qwen3moe.gguf
    local model="$shared/oracles/models/qwen3moe.gguf" total
    total=$("$stator" plan "$model" --device g=1GiB --set memory.driver_reserve=1MiB --json 2>/dev/null | sed -n 's/^ *"total": \([0-9]*\).*/\1/p' | head -n 1)
    expect 0 "$stator" plan "$model" --device g=$((total - (512 << 10)))B --set memory.driver_reserve=1MiB --set memory.on_oom=spill --json
    local expected most
    expected=$(sed -n 's/.*"bus_bytes_per_token": \([0-9]*\).*/\1/p' "$tmp/out")
    most=$(sed -n 's/.*"bus_bytes_per_token_most": \([0-9]*\).*/\1/p' "$tmp/out")
    [ "${expected:-0}" -gt 0 ] && [ "$most" -gt "$expected" ] || fail "expected $expected, at most $most"
    expect 0 "$stator" plan "$model" --device g=$((total - (512 << 10)))B --set memory.driver_reserve=1MiB --set memory.on_oom=spill
    printed '^spill of g: of experts these are as many as are to be expected; with the choice that is worst a token brings [0-9.]+ [KM]iB more$'
}


# memory.experts: the plan says what the processors compute, and what that costs a token; "auto" chooses them where a GPU is too small.
test_host() {
    need_shared oracles/models/qwen3moe.gguf
    local model="$shared/oracles/models/qwen3moe.gguf" total hosted all
    local plan=("$stator" plan "$model" --set memory.driver_reserve=1MiB)
    total=$("${plan[@]}" --device g=1GiB --json 2>/dev/null | sed -n 's/^ *"total": \([0-9]*\).*/\1/p' | head -n 1)
    expect 0 "${plan[@]}" --device g=1GiB --set memory.experts=host --json
    hosted=$(sed -n '/"experts": {/,/}/s/.*"bytes": \([0-9]*\).*/\1/p' "$tmp/out")
    all=$(sed -n 's/^ *"total": \([0-9]*\).*/\1/p' "$tmp/out" | head -n 1)
    [ "${hosted:-0}" -gt 0 ] && [ "$all" -lt "$((total - hosted / 2))" ] || fail "total $total without, $all and $hosted with"
    printed '"ram_bytes_per_token": [1-9]' && printed '"bus_bytes_per_token": [1-9]' && printed '"experts": "host"'
    expect 0 "${plan[@]}" --device g=1GiB --set memory.experts=host
    printed '^experts of g: [0-9.]+ [KM]iB lie in host memory, and the processors compute them: for a token they read [0-9.]+ [KM]iB there, and [0-9.]+ KiB of activations cross the bus$'
    expect 0 "${plan[@]}" --device g=1GiB --set memory.experts=auto
    ! grep -q '^experts of g' "$tmp/out" || fail "auto takes the experts off a GPU that holds them"
    expect 0 "${plan[@]}" --device g=$((total - (512 << 10)))B --set memory.experts=auto
    printed '^experts of g: '
    expect 2 "$stator" plan "$model" --set devices.use=cpu:0 --set memory.experts=host
    said 'memory.experts = "host": a CPU device of devices.use would share the processors'
    expect 2 "$stator" plan configs/demo.gguf --device g=1GiB --set memory.experts=host
    said 'memory.experts = "host": this model has no experts'
}

# memory.expert_slots: their arena is as large as their part of the experts, and the plan says so.
test_slots() {
    need_shared oracles/models/qwen3moe.gguf
    local model="$shared/oracles/models/qwen3moe.gguf" n bytes all
    local plan=("$stator" plan "$model" --device g=1GiB --set memory.experts=host)
    all=$("$stator" inspect "$model" | awk '/qwen3moe.expert_count/ { print $NF }')
    for n in 1 $all; do
        expect 0 "${plan[@]}" --set memory.expert_slots=$n --json
        bytes+=($(tr -d '\n' <"$tmp/out" | grep -oE '"name": "slots"[^}]*' | grep -oE '"bytes": *[0-9]+' | grep -oE '[0-9]+' | head -n 1))
        printed "\"slots\": $n" && printed '"copied_bytes_per_step_most": [1-9]' && printed "\"expert_slots\": \"*$n"
    done
    [ "${bytes[1]:-0}" -gt $((all / 2 * bytes[0])) ] && [ "${bytes[1]}" -le $((all * bytes[0])) ] || fail "slots of ${bytes[*]} bytes"
    expect 0 "${plan[@]}" --set memory.expert_slots=1000
    printed "^experts of g: it keeps $all of each layer in slots and computes these; a step copies at most [0-9.]+ KiB of others to slots$"
    # "auto": all where there is room, and as many as fit where there is not
    expect 0 "${plan[@]}" --set memory.expert_slots=auto
    printed "^experts of g: it keeps $all of each layer in slots"
    n=$("${plan[@]}" --json --set memory.expert_slots=2 2>/dev/null | sed -n 's/^ *"total": \([0-9]*\).*/\1/p' | head -n 1)
    expect 0 "$stator" plan "$model" --device g=$((n + (64 << 10)))B --set memory.experts=host --set memory.expert_slots=auto
    printed '^experts of g: it keeps 2 of each layer in slots'
    expect 3 "$stator" plan "$model" --device g=6MiB --set memory.driver_reserve=1MiB --set memory.experts=host --set memory.expert_slots=8
    said 'does not fit: .* memory.expert_slots = "auto" takes as many slots as fit; now there are 8'
    expect 2 "$stator" plan "$model" --device g=1GiB --set memory.expert_slots=1
    said 'memory.expert_slots .*is for experts that the processors compute: set memory.experts'
}

# The estimate: near bytes by the GPU's bandwidth, activations by the bus, and the larger of the missed (and copied) experts by the
# RAM's bandwidth and of the hits by the GPU's.
test_estimates() {
    need_shared oracles/models/qwen3moe.gguf
    local model="$shared/oracles/models/qwen3moe.gguf" ram
    local plan=("$stator" plan "$model" --set memory.experts=host --set memory.expert_slots=4)
    expect 0 "${plan[@]}" --device gpu0=8GiB,bandwidth=456GB/s,bus=31GB/s --json
    awk -F '[:,]' '/"ram_bytes_per_token"/ { r = $2 } /"bus_bytes_per_token"/ { b = $2 } /"copied_bytes_per_step_most"/ { c = $2 }
        /"ram_bytes_per_second"/ { m = $2 } /"ram_assumed"/ { assumed = $2 } /"hits"/ { h[n++] = $2 } /"tokens_per_second"/ { t[k++] = $2 }
        END { for (i = 0; i < 3; i++) {
                  miss = (1 - h[i]) * r; copy = h[i] > 0 ? (miss < c ? miss : c) : 0
                  cpu = (miss + copy) / m; gpu = h[i] * r / 456e9
                  s[i] = 1 / t[i] - (cpu > gpu ? cpu : gpu) - b / 31e9 }   # what is left is the same for all
              exit !(n == 3 && h[1] == 0.67 && h[2] == 0.81 && m == 60e9 && assumed ~ /true/ && t[0] < t[1] && s[0] > 0 &&
                     (s[1] / s[0] - 1) ^ 2 < 1e-6 && (s[2] / s[0] - 1) ^ 2 < 1e-6) }' "$tmp/out" || fail "$(grep -A 20 '"hosted"' "$tmp/out")"
    expect 0 "${plan[@]}" --device gpu0=8GiB,bandwidth=456GB/s,bus=31GB/s --set 'devices.facts=cpu:0=64GiB,bandwidth=80GB/s'
    printed '^experts: at the full context a sequence is estimated to generate [0-9.]+ tokens/s if 0% of the chosen experts have slots, [0-9.]+ at 67%, [0-9.]+ at 81% \(.* the processors read 74.51 GiB/s\)$'
    expect 0 "${plan[@]}" --device gpu0=8GiB
    ! grep -q '^experts: ' "$tmp/out" || fail "an estimate without bandwidths"
}

# The window of prompts: the fewest tokens for which all experts cross the bus in less time than the processors take for those that are
# chosen, which is the time to read them or to multiply them, 16 tokens in the time of a reading.
test_windows() {
    need_shared oracles/models/qwen3moe.gguf
    local model="$shared/oracles/models/qwen3moe.gguf" ram
    local plan=("$stator" plan "$model" --set memory.experts=host --set memory.batch=512)
    local known=gpu0=8GiB,bandwidth=456GB/s,bus=31GB/s
    for ram in 60 80 20; do
        expect 0 "${plan[@]}" --device $known --json --set "devices.facts=cpu:0=64GiB,bandwidth=${ram}GB/s"
        awk -F '[:,]' -v ram=$ram -v share="$(share_of_experts)" 'BEGIN { split(share, s, " / "); p = s[1] / s[2] }
            function cpu(t,   r) { r = 1 - (1 - p) ^ t; return (r > p * t / 16 ? r : p * t / 16) / ram }
            /"window_from_tokens"/ { n = $2 } /"window_bytes_per_step"/ { b = $2 } /"window_seconds_per_batch"/ { w = $2 }
            /"processors_seconds_per_batch"/ { c = $2 } /"bytes"/ && !all { all = $2 }
            END { exit !(n > 1 && cpu(n) > 1 / 31 && cpu(n - 1) <= 1 / 31 && (w / (b / 31e9) - 1) ^ 2 < 1e-6 &&
                         (c / (b / 1e9 * cpu(512)) - 1) ^ 2 < 1e-6) }' "$tmp/out" || fail "$ram GB/s: $(grep -A 12 '"experts": {' "$tmp/out")"
        tr -d '\n' <"$tmp/out" | grep -q '"name": "window"' || fail "no arena"
    done
    expect 0 "${plan[@]}" --device $known
    printed '^experts of gpu0: a step of [0-9]+ tokens or more copies all of them to the window, [0-9.]+ [KM]iB over the bus, and the GPU computes them: by bandwidths that takes [0-9]+ ms; of a step of 512 tokens the processors would take [0-9]+ ms \(assumed: they multiply with 16 tokens what they read once\)$'
    expect 0 "${plan[@]}" --device gpu0=8GiB --set memory.expert_window=100 --json
    printed '"window_from_tokens": 100' && printed '"expert_window": *"100"'
    local more
    for more in '--device gpu0=8GiB' "--device $known --set memory.expert_window=0" "--device $known --set memory.batch=4"; do
        expect 0 "${plan[@]}" $more
        ! grep -q 'to the window' "$tmp/out" || fail "$more: a window"
    done
    # where there is no room for it, "auto" does without
    local total
    total=$("${plan[@]}" --device $known --set memory.expert_window=0 --json | sed -n 's/^ *"total": \([0-9]*\).*/\1/p' | head -n 1)
    expect 0 "${plan[@]}" --device "gpu0=${total}B,bandwidth=456GB/s,bus=31GB/s"
    ! grep -q 'to the window' "$tmp/out" || fail "a window without room"
    expect 3 "${plan[@]}" --device "gpu0=${total}B,bandwidth=456GB/s,bus=31GB/s" --set memory.expert_window=100
    expect 2 "$stator" plan "$model" --device g=1GiB --set memory.expert_window=100
    said 'memory.expert_window .*is for experts that the processors compute: set memory.experts'
    expect 2 "${plan[@]}" --device $known --set memory.expert_window=513
    said 'memory.expert_window .*is larger than memory.batch: no step has so many tokens'
}

# A prompt of many tokens through the window, answers by the processors and the slots: the tokens of the CPU.
test_prompt_through_the_window() {
    need_shared oracles/models/qwen3moe.gguf
    need_driver
    local model=$shared/oracles/models/qwen3moe.gguf ids
    ids=$(seq -s ' ' 1 40)
    expect 0 "$stator" run "$model" --tokens "$ids" -n 8 --seed 1 --set devices.use=cpu:0 --set memory.context=64
    cp "$tmp/out" "$tmp/expected"
    expect 0 env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small" "$stator" run "$model" --tokens "$ids" -n 8 --seed 1 \
        --set 'devices.use="level_zero:0"' --set memory.experts=host --set memory.expert_slots=3 --set memory.expert_window=16 \
        --set memory.context=64 --set memory.batch=32 --report "$tmp/report.json"
    cmp -s "$tmp/out" "$tmp/expected" || fail "other tokens: $(cat "$tmp/out")"
    grep -q '"streamed_bytes": *[1-9]' "$tmp/report.json" && grep -q '"helped_rows": *[1-9]' "$tmp/report.json" ||
        fail "$(grep 'streamed\|helped' "$tmp/report.json")"
}

# A server on a GPU whose experts the processors compute tells their rows: 3 tokens and the last of 2 others, each with its experts in
# each layer.
test_helped_rows_in_the_metrics() {
    need_shared oracles/models/qwen3moe.gguf
    need_driver
    local rows
    serve_config=$shared/oracles/models/qwen3moe.gguf
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small")
    serve --set 'devices.use="level_zero:0"' --set memory.experts=host --set memory.context=64 --set memory.batch=16
    ready
    complete 1,2,3 2
    get /metrics
    answered 200
    rows=$("$stator" inspect "$serve_config" | awk '/qwen3moe.block_count/ { n = $NF } /qwen3moe.expert_used_count/ { used = $NF } END { print 4 * n * used }')
    grep -q "^stator_helped_rows_total $rows" "$tmp/answer" || fail "$rows rows are expected: $(grep '^stator_helped' "$tmp/answer")"
    grep -q '^stator_helped_seconds_total 0\.*[0-9]*[1-9]' "$tmp/answer" || fail "no time: $(grep '^stator_helped' "$tmp/answer")"
    kill -TERM $pid
    ends 0
}

# A prompt of 12 tokens is one step through the window, of which the metrics tell; its answer is the processors'.
test_window_bytes_in_the_metrics() {
    need_shared oracles/models/qwen3moe.gguf
    need_driver
    local bytes
    serve_config=$shared/oracles/models/qwen3moe.gguf
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small")
    serve --set 'devices.use="level_zero:0"' --set memory.experts=host --set memory.context=64 --set memory.batch=16 --set memory.expert_window=12
    ready
    complete "$(seq -s , 1 12)" 2
    get /metrics
    answered 200
    bytes=$("$stator" plan "$serve_config" --device g=1GiB --set memory.experts=host --set memory.expert_window=12 --json | sed -n 's/.*"window_bytes_per_step": \([0-9]*\).*/\1/p')
    grep -q "^stator_expert_window_bytes_total $bytes" "$tmp/answer" || fail "$bytes are expected: $(grep '^stator_expert' "$tmp/answer")"
    grep -q '^stator_helped_rows_total [1-9]' "$tmp/answer" || fail "$(grep '^stator_helped' "$tmp/answer")"
    kill -TERM $pid
    ends 0
}

# With slots, hits and misses are together as many rows, and --report has them.
test_hits_in_the_report() {
    need_shared oracles/models/qwen3moe.gguf
    need_driver
    local model=$shared/oracles/models/qwen3moe.gguf rows
    local run=(env ZE_ENABLE_ALT_DRIVERS="$driver" ZESIM="$small" "$stator" run "$model" --tokens '1 2 3' -n 12 --seed 1)
    expect 0 "$stator" run "$model" --tokens '1 2 3' -n 12 --seed 1 --set devices.use=cpu:0 --set memory.context=64
    cp "$tmp/out" "$tmp/expected"
    expect 0 "${run[@]}" --set 'devices.use="level_zero:0"' --set memory.experts=host --set memory.expert_slots=3 \
        --set memory.context=64 --set memory.batch=16 --report "$tmp/report.json"
    cmp -s "$tmp/out" "$tmp/expected" || fail "other tokens: $(cat "$tmp/out")"
    rows=$(awk -F '[:,]' '/"helped_rows"|"slot_rows"/ { n += $2 } END { print n }' "$tmp/report.json")
    [ "${rows:-0}" -gt 0 ] && [ $((rows % $("$stator" inspect "$model" | awk '/qwen3moe.block_count/ { n = $NF } /qwen3moe.expert_used_count/ { used = $NF } END { print n * used }'))) = 0 ] ||
        fail "$rows rows"
    grep -q '"slot_rows": *[1-9]' "$tmp/report.json" && grep -q '"slot_copies": *[1-9]' "$tmp/report.json" ||
        fail "no hits: $(grep slot_ "$tmp/report.json")"
}

run_tests
