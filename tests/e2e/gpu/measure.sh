# What tools/zecuda/measure makes of the rows that stator, llama-bench and llama-batched-bench print: medians on both sides, depths, types
# of K and V, sequences, shares of the limits; and where it keeps these rows. The programs are scripts here, which need no GPU.
. tests/lib.sh

# script FILE: standard input, as a program.
script() { cat >"$1" && chmod +x "$1"; }

programs() {
    mkdir -p "$tmp/root/build/ptx" "$tmp/bin" "$tmp/work"
    touch "$tmp/root/build/libzecuda.so" "$tmp/work/tiny_q8_0.gguf" # a model that is there is not made
    script "$tmp/bin/nvidia-smi" <<'SH'
#!/bin/sh
case $1 in *driver*) echo "NVIDIA H200, 580.1" ;; *compute*) echo 9.0 ;; *) echo "NVIDIA H200" ;; esac
SH
    # Rows of one test each: of five repetitions the first is slow, so the mean is not the median.
    script "$tmp/rows" <<'SH'
#!/usr/bin/env python3
import json, sys
rate, words = float(sys.argv[1]), sys.argv[2:]
def numbers(name, default): return [int(x) for x in (words[words.index(name) + 1] if name in words else default).split(",")]
fast = 2 if "memory.kv_type=q8_0" in words or "-ctk" in words and words[words.index("-ctk") + 1] == "q8_0" else 1
rows = []
for depth in numbers("-d", "0"):
    for p, n in [(p, 0) for p in numbers("-p", "512") if p] + [(0, n) for n in numbers("-n", "128") if n]:
        for sequences in numbers("--parallel", "1") if n else [1]:
            at = rate * fast * sequences / (1 + depth / 8192) * (10 if p else 1)
            rows.append({"n_prompt": p, "n_gen": n, "n_depth": depth, "avg_ts": 0.82 * at, "samples_ts": [0.1 * at, at, at, at, at]})
            if "bench" in words:
                rows[-1].update(n_parallel=sequences, token_macs=98950000000)
                if n:
                    rows[-1].update(token_read_bytes=1e9)
print(json.dumps(rows))
SH
    script "$tmp/root/stator" <<SH
#!/bin/sh
case \$1 in selftest) echo "all 3 cases passed" ;; *) exec "$tmp/rows" 100 "\$@" ;; esac
SH
    script "$tmp/bin/llama-bench" <<SH
#!/bin/sh
exec "$tmp/rows" 50 "\$@"
SH
    script "$tmp/bin/llama-batched-bench" <<SH
#!/bin/sh
echo once >>"$tmp/batched"
rate=40; [ "\$(wc -l <"$tmp/batched")" -gt 1 ] || rate=4
echo "main: a line that is no row"
for n in 16 32; do echo "{\"pp\": 16, \"tg\": 64, \"pl\": \$n, \"speed_tg\": \$((rate * n))}"; done
SH
}

measure() {
    PATH=$tmp/bin:$PATH tools/zecuda/measure --llama-bench "$tmp/bin/llama-bench" --root "$tmp/root" --work "$tmp/work" --models tiny:q8_0 \
        --depth-models tiny:q8_0 --parallel-models tiny:q8_0 --copy-gbs 200 "$@"
}

test_rates_are_medians_and_shares_of_the_limits() {
    programs
    expect 0 measure --tables speed
    printed '^selftest, dpas: all 3 cases passed'
    printed 'NVIDIA H200, 580.1; .*medians of 5, .* 200 GB/s .* 1979 int8 TOPS'
    # 100 tokens/s of 10^9 bytes are half of 200 GB/s; 1,000 of 98.95 * 10^9 products a tenth of 1979 TOPS.
    printed '^\| tiny:q8_0 \| f16 \| dp4a \| 1,000 / 500 = 2.00, 10% \| 1,000 / 500 = 2.00, 10% \| 100 / 50 = 2.00, 50% \|$'
    printed '^\| tiny:q8_0 \| f16 \| dpas \| 1,000 / 500 = 2.00, 10% .*\| - \|$' # generates nothing with it
    expect 0 measure --tables speed --int8-tops 989.5
    printed '1,000 / 500 = 2.00, 20%'
}

test_depths_are_measured_with_each_type_of_k_and_v() {
    programs
    expect 0 measure --tables depth
    printed '^\| model \| KV \|  \| pp512 at 8192 \| tg32 at 8192 \| pp512 at 32768 \| tg32 at 32768 \|$'
    printed '^\| tiny:q8_0 \| f16 \| dp4a \| 500 / 250 = 2.00, 5% \| 50 / 25 = 2.00, 25% \| 200 / 100 = 2.00, 2% \| 20 / 10 = 2.00, 10% \|$'
    printed '^\| tiny:q8_0 \| q8_0 \| dp4a \| 1,000 / 500 = 2.00, 10% \|'
}

test_sequences_are_compared_with_llama_batched_bench() {
    programs
    expect 0 measure --tables parallel --parallel 16,32
    printed '^\| tiny:q8_0 \| 1,600 / 640 = 2.50, 800% \| 3,200 / 1,280 = 2.50, 1600% \|$'
    [ "$(wc -l <"$tmp/batched")" = 5 ] || fail "llama-batched-bench ran $(wc -l <"$tmp/batched") times"
    rm "$tmp/bin/llama-batched-bench"
    expect 0 measure --tables parallel --parallel 16,32
    printed '^\| tiny:q8_0 \| 1,600, 800% \| 3,200, 1600% \|$'
}

# A stator whose rate depends on the split, and whose logits by tensor are those of $1.
split_programs() {
    programs
    script "$tmp/root/stator" <<SH
#!/bin/sh
rate=100
case "\$*" in *split=tensor*) rate=160 ;; *level_zero:1*) rate=110 ;; esac
case \$1 in
selftest) echo "selftest \$ZECUDA_DPAS" >>"$tmp/selftests"; echo "all 3 cases passed"; exit ;;
logits)
    while [ "\$1" != -o ]; do shift; done
    case "\$*" in *split=tensor*) echo $1 ;; *) echo bits ;; esac >"\$2"
    exit ;;
plan) echo '{"devices": [{"share": {"exchanges_per_token": 9, "received_bytes_per_token": 700}}]}'; exit ;;
esac
[ -z "\$ZECUDA_TIMES" ] || echo "zecuda: device 0: 7 exchanges" >&2
exec "$tmp/rows" \$rate "\$@"
SH
    script "$tmp/bin/llama-bench" <<SH
#!/bin/sh
rate=50
case "\$*" in *"-sm tensor"*) rate=60 ;; *"-sm row"*) echo "no rows here" >&2; exit 1 ;; esac
exec "$tmp/rows" \$rate "\$@"
SH
    touch "$tmp/work/bits_q8_0.gguf"
}

test_splits_of_two_gpus_are_measured_beside_one() {
    split_programs bits
    expect 0 measure --tables devices --devices-models tiny:q8_0 --bits-models bits:q8_0
    [ "$(cat "$tmp/selftests")" = "selftest 0" ] || fail "selftests: $(cat "$tmp/selftests")" # the table does not use the matrix engine
    printed "^bits:q8_0, logits of 200 tokens, beside the processor's: one GPU: the same bits; two, layers: the same bits; two, tensor: the same bits$"
    printed '^\| tiny:q8_0 \| one GPU \| 1,000 = 1.00 \| 500 = 1.00 \| 100 = 1.00 \| 50 = 1.00 \|$'
    printed '^\| tiny:q8_0 \| two, layers \| 1,100 = 1.10 \| 500 = 1.00 \| 110 = 1.10 \| 50 = 1.00 \|$'
    printed '^\| tiny:q8_0 \| two, rows \| - \| - \| - \| - \|$'
    printed '^\| tiny:q8_0 \| two, tensor \| 1,600 = 1.60 \| 600 = 1.20 \| 160 = 1.60 \| 60 = 1.20 \|$'
    printed '^zecuda: device 0: 7 exchanges$'
    printed '^tiny:q8_0, split tensor: 9 exchanges a token bring 700 bytes to a device, by the plan$'
    ! grep -q 'four' "$tmp/out" || fail "rows of four GPUs, where there is one"
    split_programs more
    sed -i 's/\*) echo "NVIDIA H200" ;;/*) for i in 1 2 3 4; do echo "NVIDIA H200"; done ;;/' "$tmp/bin/nvidia-smi"
    expect 1 measure --tables devices --devices-models tiny:q8_0 --bits-models bits:q8_0 --no-selftest
    printed 'two, layers: the same bits; two, tensor: OTHER BITS$'
    said 'these figures do not count'
    printed '^\| tiny:q8_0 \| four, layers \| 1,100 = 1.10 \| - \| 110 = 1.10 \| - \|$'
    printed '^\| tiny:q8_0 \| four in two groups \| 1,600 = 1.60 \| - \| 160 = 1.60 \| - \|$'
}

# A GPU that has room for a quarter of the model: each way has its rates, and llama.cpp keeps as many layers of experts as the plan has
# room for: 60 of 100 bytes are taken, a layer has 10.
test_hosted_experts_are_measured_beside_llama() {
    programs
    head -c 4000 /dev/zero >"$tmp/work/moe.gguf"
    script "$tmp/root/stator" <<SH
#!/bin/sh
rate=100
echo "\$*" >>"$tmp/ours"
case \$1 in
selftest) echo "all 3 cases passed"; exit ;;
plan) echo '{"devices": [{"budget": 100, "total": 60, "layers": {"first": 0, "count": 12}, "experts": {"bytes": 120}}]}'; exit ;;
esac
case "\$*" in *on_oom=spill*) rate=10 ;; *expert_slots=auto*) rate=40 ;; *expert_slots=7*) rate=30 ;; *experts=host*) rate=20 ;; esac
exec "$tmp/rows" \$rate "\$@"
SH
    script "$tmp/bin/llama-bench" <<SH
#!/bin/sh
case "\$*" in *"-ncmoe 8"*) exec "$tmp/rows" 25 "\$@" ;; *"-ncmoe 12"*) exec "$tmp/rows" 15 "\$@" ;; esac
exit 1
SH
    expect 0 measure --tables hosted --headers "$tmp/moe.head.xz" --slots 7 --window 99
    printed '^moe, 0.00 GB of 0.00 on the GPU$'
    printed '^\| all on the GPU \| 1,000 \| 100 \|$'
    printed '^\| spill \| 100 \| 10 \|$'
    printed '^\| processors, slots, window \| 400 \| 40 \|$'
    printed '^\| processors, 7 slots \| 300 \| 30 \|$'
    printed '^\| llama.cpp, experts of 0 layers of 12 on the GPU \| 150 \| 15 \|$'
    printed '^\| llama.cpp, experts of 4 layers of 12 on the GPU \| 250 \| 25 \|$'
    grep -q 'device_limit=1000B .*experts=host .*expert_window=99 .*expert_slots=auto' "$tmp/ours" || fail "$(cat "$tmp/ours")"
    expect 1 measure --tables hosted
    said 'need --headers'
}

test_no_run_begins_after_the_limit() {
    split_programs bits
    sed -i 's/^rate=100$/rate=100; [ "\$1" != logits ] || sleep 0.3/' "$tmp/root/stator"
    expect 0 measure --tables devices --devices-models tiny:q8_0 --bits-models bits:q8_0 --limit 1
    said 'stator .*tiny_q8_0.gguf .*: not run, --limit is over'
    printed '^\| tiny:q8_0 \| two, tensor \| - \| - \| - \| - \|$'
}

test_what_the_programs_print_is_kept_outside_the_repository() {
    programs
    expect 1 measure --tables speed --raw build/raw
    said '^measure: --raw: .*/build/raw lies in the repository.*name a folder outside'
    [ ! -e build/raw ] || fail "the folder was made"
    expect 0 measure --tables speed
    [ "$(cat "$tmp"/work/raw/*-llama.cpp.json | grep -c '"output": ')" = 1 ] || fail "kept: $(ls "$tmp/work/raw" | tr '\n' ' ')"
    grep -q '\\"samples_ts\\": \[5.0, 50.0' "$tmp"/work/raw/*-llama.cpp.json || fail "the repetitions are not there: $(head -c 300 "$tmp"/work/raw/*-llama.cpp.json)"
}

test_a_run_that_fails_is_said_and_its_cells_are_empty() {
    programs
    script "$tmp/bin/llama-bench" <<'SH'
#!/bin/sh
echo "no memory left" >&2
exit 3
SH
    expect 0 measure --tables speed
    said 'llama.cpp -m .*: exit 3: no memory left'
    printed '^\| tiny:q8_0 \| f16 \| dp4a \| 1,000, 10% \|'
    script "$tmp/root/stator" <<'SH'
#!/bin/sh
echo "case 2 differs"; exit 1
SH
    expect 1 measure --tables speed
    said 'selftest failed: nothing is measured'
}

run_tests
