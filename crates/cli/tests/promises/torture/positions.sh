# Processes read and write by open files that they share: each goes on where the last one has stopped.
seq 40 >numbers
{
    read first
    (read second; echo "then $second"; head -c 6 >/dev/null)
    while read number; do
        case $number in
        *0) (read next; test -e . && echo "between: $next") ;;
        *5) cat numbers | tail -n 1 ;;
        esac
        echo "got $number"
    done
    echo "first was $first"
} <numbers >found
cat found
(
    echo one
    sh -c 'test -e . && echo two; (test -e . && echo three)'
    ls numbers missing 2>/dev/null || echo four
) >written
cat written
exec 5>log 6<numbers
for line in 1 2 3 4 5 6 7 8; do
    (test -e . && echo "child $line" >&5; read other <&6; echo "$other" >&5)
    echo "parent $line" >&5
    read own <&6
    echo "$own" >&5
done
exec 5>&- 6<&-
cat log
echo '(read two; echo "$two"); while read line; do echo "$line"; done' >script
(sh ./script; cat) <numbers | cksum
# A program that was written by an open file of several.
{ echo '#!/bin/sh'; (test -e . && echo 'echo executed'); } >program
chmod +x program && ./program
