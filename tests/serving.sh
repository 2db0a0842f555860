# What tests of `stator serve` against clients in Python share; after tests/lib.sh. $client_file is the client.

need_python() { command -v python3 >/dev/null || skip "no python3"; }

# serve SET...: starts the server on a port of the system's choice; $port, $pid. $serve_config: another config than the demo's.
serve() {
    local n sets=()
    for n in "$@"; do sets+=(--set "$n"); done
    "$stator" serve "${serve_config:-configs/demo.cfg}" --set server.port=0 --set server.request_timeout=600 "${sets[@]}" >"$tmp/serve.out" 2>"$tmp/serve.err" &
    pid=$!
    trap 'kill "$pid" 2>/dev/null; wait "$pid"' EXIT
    for ((n = 0; n < 600; n++)); do
        port=$(sed -n 's/^listening on http:.*:\([0-9]*\)$/\1/p' "$tmp/serve.out")
        [ -n "$port" ] && curl_health && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    fail "it does not serve: $(tail -c 600 "$tmp/serve.err" | tr '\n' ' ')"
}
curl_health() {
    python3 -c "import http.client, sys
c = http.client.HTTPConnection('127.0.0.1', $port, timeout=10)
c.request('GET', '/health')
sys.exit(c.getresponse().status != 200)" 2>/dev/null
}

# client TEST [ARGUMENT...]
client() {
    local test=$1
    shift
    python3 "$client_file" "$test" "$port" "$pid" "$stator" "$@" >"$tmp/client.out" 2>&1 ||
        fail "$(tail -c 1500 "$tmp/client.out" | tr '\n' ' ')"
    sed 's/^/# /' "$tmp/client.out"
}

# ends: SIGTERM, and a clean end.
ends() {
    local rc=0
    kill -TERM "$pid"
    wait "$pid" || rc=$?
    trap - EXIT
    [ "$rc" = 0 ] || fail "exit $rc after SIGTERM: $(tail -c 600 "$tmp/serve.err" | tr '\n' ' ')"
}

# script PIECE...: with the settings of the array `more`, serves a model that answers with these texts and writes calls as Hermes does.
script() {
    cat >"$tmp/template" <<'END'
{%- if tools %}<|im_start|>system
{{ tools|tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{% set f = c.function %}
<tool_call>
{"name": "{{ f.name }}", "arguments": {{ f.arguments|tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
END
    python3 tests/models/script_model.py "$tmp/script.gguf" "$tmp/template" "$@" || fail "no model"
    serve "model.path=$tmp/script.gguf" memory.context=1024 memory.sequences=2 ${more[@]+"${more[@]}"}
}
