# Processes that meet at FIFOs. Each looks at names first, of which some are not there.
look() {
    for file in /etc/p* /none/$1; do test -e "$file" || :; done
}
mkfifo one two tokens gone
# A writer and a reader of lines, who wait for each other, until the writer closes its end.
(look a; for n in 1 2 3 4 5 6; do look $n; echo "line $n"; done > one) &
(look b; while read line; do look $line; echo "got $line"; done < one)
wait
# Several writers one after the other: a reader that has read to the end opens the FIFO again.
(for n in 1 2 3; do look $n; echo "turn $n" > one; look $n; read answer < two; echo "$answer"; done > answers) &
for n in 1 2 3; do look $n; cat one; look $n; echo "answer $n" > two; done
wait; cat answers
# Several writers at a time.
(cat one | sort) &
exec 4> one
for n in 1 2 3; do (look $n; echo "from $n") >&4 & done
exec 4>&-
wait
# Who has both sides never sees the end. A byte for each job that may run, as make has it.
exec 3<> tokens
printf '++' >&3
for n in 1 2 3 4 5; do
    (look $n; token=$(head -c 1 <&3); look $n; echo "job $n" > done$n; printf %s "$token" >&3) &
done
for n in 1 2 3 4 5; do until test -s done$n; do :; done; cat done$n; done
wait; head -c 2 <&3; echo
exec 3>&-
# Its name goes while it is open, and another one has the name then.
exec 5<> gone; mv gone away; mkfifo gone; rm away
(look x; echo kept >&5) & (look y; read line <&5; echo "$line"); wait
(look z; echo new > gone) & cat gone; wait
exec 5>&-
(look w; exit 3) 6<> gone || echo "status $?"
rm gone one two tokens
