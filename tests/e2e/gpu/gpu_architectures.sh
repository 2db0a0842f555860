# Small models of odd shapes (tests/models/peer_models.h) on zesim: the same bits as on the CPU, split, and some in one piece.
. tests/lib.sh
. tests/lib_gpu.sh
. tests/lib_serve.sh

# NAMES...: of models whose logits the unit test compares with their formulas on the CPU. Every model runs split, which launches the same
# kernels; the first one also runs in one piece.
same() {
    need_driver
    "$(dirname "$stator")/tests/test_peer_models" --write "$tmp" >"$tmp/names" || fail "no models"
    local name devices pieces="level_zero:0 level_zero:0,level_zero:1"
    for name; do
        grep -qx "$name" "$tmp/names" || fail "no model $name"
        set -- --tokens-file "$tmp/$name.ids" --set memory.kv_type=f32 --set memory.context=256
        expect 0 "$stator" logits "$tmp/$name.gguf" --set devices.use=cpu:0 -o "$tmp/cpu" "$@"
        for devices in $pieces; do
            expect_gpu 0 devices=2 "$stator" logits "$tmp/$name.gguf" --set devices.use=$devices -o "$tmp/gpu" "$@"
            cmp "$tmp/gpu" "$tmp/cpu" || fail "$name on $devices: other logits than the CPU's"
            clean
        done
        pieces=level_zero:0,level_zero:1
    done
}
test_no_rope() { same smollm3-odd; }
test_scales() { same granite-odd granitemoe-odd; }
test_growing_queries() { same mistral3-odd; }
test_grouped_heads() { same qwen3next-odd qwen3next-equal qwen3next-fused; }
test_factors() { same llama-nvfp4 qwen3moe-nvfp4 gpt-oss-scales qwen35moe-scales; }
test_fused() { same qwen3-fused phi3-apart qwen35moe-fused; }
test_softcaps() { same gemma2-odd gemma2-wide; }
test_wide_norms() { same olmo2-odd olmo2-windows; }
test_norms_behind() { same exaone4-odd exaone4-windows glm4-odd; }
test_other_heads() { same gemma4-odd gemma4-values; }
test_layer_embeddings() { same gemma4-embeddings gemma4-shared; }
test_experts_beside() { same gemma4-experts gemma4-experts-apart; }
test_plain() { same seed_oss-odd ernie4_5-odd gemma-odd qwen3vl-odd qwen2vl-odd; }
test_other_experts() { same qwen2moe-odd minimax-m2-odd qwen3vlmoe-odd; }
test_gated_convolutions() { same lfm2-odd lfm2-wide lfm2-one lfm2moe-odd; }
test_norms_after_rope() { same hunyuan-dense-odd hunyuan-dense-part; }
test_layer_norm() { same cohere2-odd cohere2-wide; }
test_choice_bias() { same ernie4_5-moe-odd ernie4_5-moe-plain glm4moe-odd glm4moe-norms; }
test_hyper_connections() { same qwen4exp-odd qwen4exp-equal qwen4exp-blocks qwen4exp-ngrams; }
test_latent_attention() { same deepseek2-odd deepseek2-lite deepseek2-dense; }

# Texts to embeddings, where attention sees both sides: of several windows' length, several in a step, in one piece and split.
test_both_sides() {
    need_driver
    "$(dirname "$stator")/tests/test_peer_models" --write "$tmp" >"$tmp/names" || fail "no models"
    local name devices
    for name in gemma-embedding-odd gemma-embedding-dense; do
        set -- "$stator" embed "$tmp/$name.gguf" --tokens "$(seq -s, 1 90)" --set memory.batch=128
        expect 0 "$@" --set devices.use=cpu:0
        cp "$tmp/out" "$tmp/cpu"
        [ -s "$tmp/cpu" ] || fail "$name: no embedding"
        for devices in level_zero:0 level_zero:0,level_zero:1; do
            expect_gpu 0 devices=2 "$@" --set devices.use=$devices --report "$tmp/report"
            cmp "$tmp/out" "$tmp/cpu" || fail "$name on $devices: another embedding than the CPU's"
            clean
            [ "$(of level_zero:0 kernels_executed)" -gt 0 ] || fail "$name: nothing ran on the GPU"
        done
        expect_gpu 0 devices=1 "$@" --report "$tmp/report"
        grep -q '"name": "level_zero:0"' "$tmp/report" || fail "auto does not take the GPU"
    done
}

# The same over HTTP, several texts at a time, as ids and as texts.
test_vectors_over_http() {
    need_driver
    command -v python3 >/dev/null || skip "no python3"
    "$(dirname "$stator")/tests/test_peer_models" --write "$tmp" >"$tmp/names" || fail "no models"
    local model=$tmp/gemma-embedding-odd.gguf ids body
    ids=$(seq -s, 3 92)
    "$stator" embed "$model" --tokens "$ids" --set devices.use=cpu:0 --set memory.batch=128 >"$tmp/cpu" 2>/dev/null || fail "the CPU can't run"
    "$stator" embed "$model" 'two words' --set devices.use=cpu:0 --set memory.batch=128 >>"$tmp/cpu" 2>/dev/null || fail "the CPU can't run a text"
    serve_under=(env ZE_ENABLE_ALT_DRIVERS="$driver" "ZESIM=$small,log=$tmp/log.json")
    serve --set "model.path=$model" --set devices.use=level_zero:0 --set memory.batch=128 --set memory.context=128 --set memory.sequences=3
    ready
    for body in "{\"input\": [[$ids], [$ids], [9, 8]]}" '{"input": ["w290", "two words"]}'; do
        raw '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' 'POST /v1/embeddings HTTP/1.1' 'Host: localhost' 'Connection: close' "Content-Length: ${#body}" "$body"
        answered 200 '"object": ?"list"'
        sed '1,/^\r*$/d' "$tmp/answer" >>"$tmp/answers"
    done
    python3 - "$tmp/answers" "$tmp/cpu" <<'END' || fail "other vectors than the CPU's"
import json, struct, sys
single = lambda v: struct.pack("<%df" % len(v), *v)
decoder, text, got = json.JSONDecoder(), open(sys.argv[1]).read(), []
while text.strip():
    answer, end = decoder.raw_decode(text.lstrip())
    got.append([single(d["embedding"]) for d in answer["data"]])
    text = text.lstrip()[end:]
ids, words = [single([float(x) for x in line.split()]) for line in open(sys.argv[2])]
sys.exit(not (got[0][0] == ids and got[0][1] == ids and got[0][2] != ids and got[1][1] == words and got[1][0] != words))
END
    kill -TERM $pid
    ends 0
    clean
}

run_tests
