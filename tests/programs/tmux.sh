#!/bin/sh
# A tmux server on a socket of its own: a session with a shell gets keys, its screen is read, a second window comes and
# goes, and the server is ended. The shell shows no prompt and its terminal no echo, so the screen is the same each time.
set -eu
[ "${1-}" != prepare ] || {
    command -v tmux >/dev/null || { echo "there is no tmux here" && exit 77; }
    exit 0
}

socket=$PWD/socket
export TERM=xterm LC_ALL=C.UTF-8
unset TMUX
t() { tmux -S "$socket" -f /dev/null "$@"; }

# keys COMMAND: types it, and waits until the shell has carried it out.
keys() {
    t send-keys -t "$window" -l "$1; $tell done"
    t send-keys -t "$window" Enter
    t wait-for done
}

# screen MARK: the window's screen. The server may read what the shell has put out later than it hears of the shell's end.
screen() {
    until t capture-pane -p -t "$window" | grep -q "$1"; do sleep 0.05; done
    t capture-pane -p -t "$window"
}

tell="tmux -S '$socket' wait-for -S"
shell="stty -echo; $tell ready; PS1= PS2= ENV= exec sh -i"

t new-session -d -s work -x 60 -y 12 "$shell"
t wait-for ready
window=work:0
keys 'echo hello | tr a-z A-Z'
keys 'mkdir made && cd made && seq 3 >numbers; cat numbers'
keys 'sleep 0.05 & wait; echo "waited for $?"'
keys 'printf "\033[7mreversed\033[0m and not\n"'
screen 'and not'

t new-window -d -t work:1 -n second "$shell"
t wait-for ready
window=work:1
keys 'tty >/dev/null && echo terminal; stty size'
keys 'cat ../made/numbers made/numbers 2>/dev/null | wc -l'
screen '^3' | sed '/^$/d'
t list-windows -t work -F '#{window_index} #{window_panes} #{window_width}x#{window_height}'
t kill-window -t work:1
t list-windows -t work -F '#{window_index}'

# The shell leaves by its end of input.
window=work:0
t set-option -t work remain-on-exit on
t split-window -d -t work:0 "cat >typed"
t send-keys -t work:0.1 -l 'typed into cat'
t send-keys -t work:0.1 Enter C-d
until [ "$(t display-message -p -t work:0.1 '#{pane_dead}')" = 1 ]; do sleep 0.05; done
cat typed
server=$(t display-message -p '#{pid}')
t kill-server
while kill -0 "$server" 2>/dev/null; do sleep 0.05; done
rm -f "$socket"
echo ended
