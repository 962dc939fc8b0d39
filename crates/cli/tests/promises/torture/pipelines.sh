# Pipelines, and what else has several processes at a pipe. Each looks at names first, of which some are not there.
look() {
    for file in /etc/p* /usr/l* /none/$1; do test -e "$file"; done
}
for n in 1 2; do
    (look $n; echo "$n b"; echo "$n a") | sort | cat
done
(look x; echo one; echo two; look x) | while read line; do look $line; echo "got $line"; done
cat <<END | tr a-z A-Z
text $(echo here)
END
(look y; exit 3) | cat; echo "status $?"
(look z; while echo y; do :; done) 2>/dev/null | (read line; echo "first $line")
(look w; echo out; exec >&-; look w; exit 0) | (cat; echo "end")
echo "$(look v; echo kept & wait; echo last)"
