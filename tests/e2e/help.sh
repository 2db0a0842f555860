# `stator help TOPIC`: the README files that are carried in the binary.
. tests/lib.sh

topics='memory:src/plan/README.md devices:src/device/README.md intel:src/device/level_zero/README.md speed:src/kernels/cpu/README.md
agents:src/server/AGENTS.md'

test_topics_are_the_files() {
    local t
    for t in $topics; do
        expect 0 "$stator" help "${t%%:*}"
        [ ! -s "$tmp/err" ] || fail "help ${t%%:*} wrote to stderr"
        head -c "$(wc -c <"${t#*:}")" "$tmp/out" | cmp -s - "${t#*:}" ||
            fail "help ${t%%:*} is not ${t#*:}"
    done
}

# Titles come from the first lines of the files.
test_topics_are_listed() {
    local t
    expect 0 "$stator" help
    printed '^topics of'
    printed '^  config   +Every key of a config file'
    for t in $topics; do
        grep -qF "$(printf '  %-12s%s' "${t%%:*}" "$(sed -n '1s/^# //p' "${t#*:}")")" "$tmp/out" ||
            fail "stator help does not list ${t%%:*} with its title"
    done
}

test_topic_that_is_a_command() {
    expect 0 "$stator" help devices
    printed '^`stator devices --help` lists the options'
    expect 0 "$stator" devices --help
    printed '^usage: stator devices'
    expect 0 "$stator" help memory
    [ "$(tail -n 1 "$tmp/out")" = "$(tail -n 1 src/plan/README.md)" ] || fail "help memory goes on after the file"
}

test_json() {
    expect 0 "$stator" help intel --json
    printed '"topic": "intel"'
    printed '"file": "src/device/level_zero/README.md"'
    printed '"text": "# Intel GPUs\\n'
}

test_models() {
    expect 0 "$stator" help models
    printed '^qwen35$'
    printed '^    Qwen3.5, Qwen3.6 and Qwen3.8'
    printed '^qwen4exp$'
    printed '^    Qwen3.8-Flash-Next \(125B-A6B\)'
    expect 0 "$stator" help models --json
    printed '"architecture": "gpt-oss"'
    printed '"models": "gpt-oss 20B and 120B"'
    expect 0 "$stator" help
    printed '^  models +Models that are supported'
}

test_unknown_topic() {
    expect 2 "$stator" help memroy
    said '^stator help: "memroy" is neither a command nor a topic; did you mean "memory"'
    [ ! -s "$tmp/out" ] || fail "it printed something"
    expect 2 "$stator" help sped
    said 'did you mean "speed"'
    expect 2 "$stator" help versoin
    said 'did you mean "version"'
    expect 2 "$stator" help qqqqqqqqqq
    said 'neither a command nor a topic \(`stator help` lists them\)'
}

# What is printed on a terminal as it lies in the file has no line that a terminal would break into a mess.
test_lines_fit_a_terminal() {
    local t long
    for t in $topics; do
        long=$(awk 'length > 110 { print FILENAME ":" FNR ": " length " columns" }' "${t#*:}")
        [ -z "$long" ] || fail "$long"
    done
}

test_full_disk() {
    [ -c /dev/full ] || skip "no /dev/full"
    local got=0
    "$stator" help speed >/dev/full 2>"$tmp/err" || got=$?
    [ "$got" = 1 ] || fail "exit $got instead of 1"
    said "can't write to standard output"
}

# Every file that a README names with a link is there.
test_links() {
    local file target missing=
    for file in $(git ls-files '*.md' 2>/dev/null || find . -name '*.md' -not -path './build/*'); do
        for target in $(grep -oE '\]\([^)#]+' "$file" | sed 's/^](//'); do
            case $target in http*) continue ;; esac
            [ -e "$(dirname "$file")/$target" ] || missing="$missing $file:$target"
        done
    done
    [ -z "$missing" ] || fail "links to what is not there:$missing"
}

# The picture in the README files is that of the demo's plan: the same arenas on the device (the host's change with every
# struct of the engine).
test_picture_of_the_plan() {
    local now=$tmp/now.svg then=src/plan/demo_plan.svg
    expect 0 "$stator" plan configs/demo.cfg --set memory.host_limit=64MiB --set cpu.threads=2 --svg "$now"
    grep -o '>cpu:0, [^<]*' "$now" >"$tmp/now"
    [ "$(wc -l <"$tmp/now")" -ge 4 ] || fail "no arenas in the picture: $(cat "$tmp/now")"
    grep -o '>cpu:0, [^<]*' $then | diff "$tmp/now" - >"$tmp/diff" || fail "$then is of another plan: $(cat "$tmp/diff")"
}

# Programs that draw SVG without a browser see the colours of the arenas, too. Prints how many of the legend's colours a picture has.
colours_of() {
    rsvg-convert -w 400 "$1" -o "$tmp/picture.png" || fail "rsvg-convert refuses $1"
    python3 - "$tmp/picture.png" <<'END'
import struct, sys, zlib
data, at, packed = open(sys.argv[1], 'rb').read(), 8, b''
while at < len(data):
    n, kind = struct.unpack_from('>I4s', data, at)
    body = data[at + 8:at + 8 + n]
    if kind == b'IHDR':
        width, height, depth, form = struct.unpack_from('>IIBB', body)
    if kind == b'IDAT':
        packed += body
    at += n + 12
step = {2: 3, 6: 4}[form]
raw, line, before, seen = zlib.decompress(packed), width * step, bytearray(width * step), set()
for y in range(height):
    way, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1:(y + 1) * (line + 1)])
    for x in range(line):
        a, b, c = (row[x - step] if x >= step else 0), before[x], (before[x - step] if x >= step else 0)
        p = a + b - c
        near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        row[x] = (row[x] + (0, a, b, (a + b) // 2, near)[way]) & 255
    seen.update(bytes(row[x:x + 3]).hex() for x in range(0, line, step))
    before = row
print(len(seen & {'8ab8f0', 'f2b880', 'c9b2ec', '8fd3a6', 'f3a0ac', '8ed5dc', 'c3cad2'}))
END
}

test_picture_without_a_browser() {
    command -v rsvg-convert >/dev/null || { skip 'no rsvg-convert here (package librsvg2-bin)'; return; }
    expect 0 "$stator" plan configs/demo.cfg --set memory.host_limit=64MiB --svg "$tmp/plan.svg"
    local picture
    for picture in "$tmp/plan.svg" src/plan/demo_plan.svg; do
        [ "$(colours_of "$picture")" = 7 ] || fail "$picture is drawn without the colours of its legend"
    done
}

run_tests
