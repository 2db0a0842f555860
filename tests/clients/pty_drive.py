#!/usr/bin/env python3
"""Runs a command on a pseudo-terminal and plays a user.

    pty_drive.py [--stdout FILE] [--seconds N] COMMAND... -- STEP...

A step is `expect=REGEX` (in what came since the last match; waits for it), `absent=REGEX` (not in what came since the last
match so far), `send=TEXT` (escapes as in Python), `signal=NAME`, `size=COLUMNS`, `pause=SECONDS`. At the end the exit code of the
command is awaited and is the exit code here, 128 + signal if one ended it; 99: a step failed, with what was seen on stderr.
--stdout FILE: the command's standard output goes there instead of to the terminal.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

arguments = sys.argv[1:]
stdout, seconds = None, 60.0
while arguments and arguments[0] in ("--stdout", "--seconds"):
    if arguments[0] == "--stdout":
        stdout = arguments[1]
    else:
        seconds = float(arguments[1])
    arguments = arguments[2:]
cut = arguments.index("--")
command, steps = arguments[:cut], arguments[cut + 1:]

pid, master = pty.fork()
if pid == 0:
    if stdout is not None:
        os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    os.environ["TERM"] = "xterm"
    os.execvp(command[0], command)

seen = b""  # all of it
at = 0  # behind the last match


def give_up(why):
    sys.stderr.write("pty_drive: %s\nseen: %r\nsince the last match: %r\n" % (why, seen[-3000:], seen[at:][-1500:]))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    sys.exit(99)


def take(wait):
    """More of the output; False at its end."""
    global seen
    if not select.select([master], [], [], wait)[0]:
        return True
    try:
        got = os.read(master, 65536)
    except OSError:
        got = b""
    seen += got
    return got != b""


def send(data):
    """All of it, reading meanwhile: the terminal's buffers are small."""
    end = time.monotonic() + seconds
    while data:
        if time.monotonic() > end:
            give_up("the command does not read")
        if select.select([], [master], [], 0.05)[1]:
            data = data[os.write(master, data[:512]):]
        take(0)


for step in steps:
    kind, _, value = step.partition("=")
    end = time.monotonic() + seconds
    if kind == "expect":
        pattern = re.compile(value.encode(), re.S)
        while True:
            match = pattern.search(seen, at)
            if match:
                at = match.end()
                break
            if time.monotonic() > end or not take(0.2):
                match = pattern.search(seen, at)
                if not match:
                    give_up("no /%s/" % value)
    elif kind == "absent":
        if re.search(value.encode(), seen[at:], re.S):
            give_up("there is /%s/" % value)
    elif kind == "send":
        send(codecs.escape_decode(value.encode())[0])
    elif kind == "signal":
        os.kill(pid, getattr(signal, "SIG" + value))
    elif kind == "size":
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(value), 0, 0))
    elif kind == "pause":
        end = time.monotonic() + float(value)
        while time.monotonic() < end and take(0.05):
            pass
    else:
        give_up("no step: " + step)

end = time.monotonic() + seconds
while True:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    if time.monotonic() > end:
        give_up("it does not end")
    take(0.05)
while take(0.05) and select.select([master], [], [], 0.05)[0]:
    pass
sys.stdout.buffer.write(seen)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
