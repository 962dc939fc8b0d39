#!/bin/sh
# Archives and lists: `tar | gzip`, and back; `xargs -P` with four processes at once; split and joined; sorted by parts.
set -eu
[ "${1-}" != prepare ] || exit 0

mkdir -p in/a/b in/c
seq 1 20000 >in/a/numbers
seq 1 500 | sed 's/.*/& line of & text/' >in/a/b/text
head -c 200000 /dev/zero >in/c/zeros
for number in $(seq 1 40); do echo "$number" >"in/c/small$number"; done
ln -s ../a/numbers in/c/link
ln in/a/b/text in/c/hard
chmod 600 in/c/small1

archive() { tar -c -f - --sort=name --owner=0 --group=0 --numeric-owner --mtime=@1 "$@"; }

archive in | gzip -n >archive.tar.gz
gzip -d <archive.tar.gz | tar -t -f - | sed -n '1,5p'
mkdir out
gzip -d <archive.tar.gz | tar -x -f - -C out
archive -C out in | cmp - "$(gzip -dk archive.tar.gz && echo archive.tar)"
diff -r in out/in
cksum archive.tar.gz
(cd in && archive . | (mkdir ../copied && cd ../copied && tar -x -f -))
diff -r in copied

find in -type f -links 1 -print0 | sort -z | xargs -0 -n 1 -P 4 gzip -n -k
find in -name '*.gz' | sort | xargs cksum | sed -n '1,5p'
find in -name '*.gz' -print0 | xargs -0 -n 4 -P 4 gzip -t
seq 1 40 | xargs -P 4 -I NUMBER sh -c 'echo NUMBER | sed s/^/got/ >got.NUMBER'
cat got.* | sort -V | paste -s -d ' '
rm got.*
# The status of one process in many.
status=0
seq 1 12 | xargs -P 3 -n 1 sh -c 'test "$1" != 7 || exit 1' sh || status=$?
echo "status $status"

split -n l/5 in/a/numbers part.
wc -l part.* | sed 's/^ *//' | tail -n 1
cat part.* | cmp - in/a/numbers
for part in part.*; do sort -r "$part" >"sorted.$part" & done
wait
sort -r -m sorted.part.* | cksum
sort -r in/a/numbers | cksum
seq 20000 -1 1 | sort -n -S 64k -T . | cmp - in/a/numbers
sort -n -S 64k -T . in/a/numbers in/a/numbers | uniq -d | wc -l
sed 's/[0-5]//g' in/a/numbers | sort -u | comm -12 - sorted.part.aa 2>/dev/null | cksum
rm part.* sorted.*
