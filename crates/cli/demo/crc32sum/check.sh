#!/bin/sh
# check.sh CRC32SUM: tests the program against known sums and against itself.
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

expect() { # expect WHAT WANTED FOUND
    if [ "$2" != "$3" ]; then
        echo "FAIL $1: wanted '$2', found '$3'"
        exit 1
    fi
    echo "ok   $1"
}

expect 'the empty file' '00000000  -' "$("$program" </dev/null)"
expect 'the check value of the standard' 'cbf43926  -' "$(printf 123456789 | "$program")"
expect 'a million zeros' '1279cb9e  -' "$(head -c 1000000 /dev/zero | "$program")"

"$program" ./*.c ./*.h >"$scratch/list"
expect 'a list of its own source checks' 0 "$("$program" -c "$scratch/list" | grep -vc ': OK$' || true)"

printf 'before' >"$scratch/file"
"$program" "$scratch/file" >"$scratch/list"
printf 'after' >"$scratch/file"
expect 'a changed file is found' "$scratch/file: FAILED" "$("$program" -c "$scratch/list" || true)"
echo 'no sum at all' >"$scratch/list"
expect 'a broken list is refused' 1 "$("$program" -c "$scratch/list" 2>/dev/null || echo $?)"
