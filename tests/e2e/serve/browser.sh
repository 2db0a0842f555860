# The web page in a headless Chromium (tests/clients/browser_client.py).
. tests/lib.sh
. tests/lib_serve.sh
. tests/lib_gpu.sh

# Not skip: Chromium is in no group that the other tests need.
page() {
    local test=$1
    shift
    python3 tests/clients/browser_client.py "$port" "$test" "$@" >"$tmp/client.out" 2>&1 || fail "$(tail -c 1500 "$tmp/client.out" | tr '\n' ' ')"
}
begin() {
    if ! command -v chromium >/dev/null || ! command -v python3 >/dev/null; then
        [ -z "${STATOR_BROWSER_REQUIRE:-}" ] || fail "no Chromium here: run make setup-browser"
        echo "no Chromium here: run make setup-browser" >"$tmp/.skip"
        exit 0
    fi
    if sanitized; then
        echo "sanitizers take too long for a page that is looked at" >"$tmp/.skip"
        exit 0
    fi
    # The slowest tier, so that an answer can be stopped and a map, which comes every second, sees it.
    serve --set cpu.tier=scalar --set cpu.threads=1 --set memory.sequences=2 "$@"
    ready
}
template() {
    echo '{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}' >"$tmp/chat.jinja"
    echo "chat.template=$tmp/chat.jinja"
}
over() {
    kill -TERM $pid
    ends 0
}

test_chat() { begin --set "$(template)"; page chat; over; }
test_texts() { begin --set "$(template)"; page texts; over; }
test_memory() { begin; page memory; over; }
test_states() {
    need_shared oracles/models/qwen35.gguf
    serve_config=$shared/oracles/models/qwen35.gguf begin
    page caches cpu:0
    over
}
test_windows() {
    need_shared oracles/models/gemma3.gguf
    serve_config=$shared/oracles/models/gemma3.gguf begin --set memory.context=256 --set memory.batch=32
    page caches cpu:0
    over
}
test_gpus() {
    need_shared oracles/models/qwen35.gguf
    need_driver
    export ZE_ENABLE_ALT_DRIVERS=$driver ZESIM=devices=2,$small
    serve_config=$shared/oracles/models/qwen35.gguf begin --set devices.use='"level_zero:0, level_zero:1"' --set memory.context=256
    page caches level_zero:0 level_zero:1
    over
}
test_access() { begin; page access; over; }
test_pictures() {
    printf '%s\n' "model = { path = \"$PWD/tests/data/pictures/model.gguf\"; vision = \"$PWD/tests/data/pictures/mmproj.gguf\"; };" \
        'memory = { staging = "1MiB"; };' 'vision = { decode = "4MiB"; };' >"$tmp/box.cfg"
    echo '{% for m in messages %}{{ m.content }}{% endfor %}' >"$tmp/chat.jinja"
    serve_config=$tmp/box.cfg begin --set chat.template="$tmp/chat.jinja"
    page pictures tests/data/pictures/tower.png
    over
}
test_plain() { begin; page plain; over; }
test_key() {
    echo right-key >"$tmp/keys"
    begin --set server.api_key_file="$tmp/keys"
    page key right-key
    over
}

run_tests
