#!/bin/sh
# lua, built by `make -j2` from its source. Several jobs print in any order, so lines are sorted.
set -eu
[ "${1-}" != prepare ] || {
    root=$(cd "$(dirname "$0")/../.." && pwd)
    for program in make cc ar; do
        command -v "$program" >/dev/null || { echo "there is no $program here" && exit 77; }
    done
    source="$root/target/sources/lua5.4"
    "$root/scripts/fetch-source" lua5.4 "$source" >&2 || { echo "no source of lua5.4 to be had" && exit 77; }
    cp -R "$source/." .
    exit 0
}

make -j2 generic 2>&1 | sort
src/lua -v
src/lua -e 'local t = {} for i = 1, 1000 do t[i] = i * i end print(#t, t[31], ("x"):rep(3))'
