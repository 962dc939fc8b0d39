# Substitutions, one after the other. Each process looks at names first, of which some are not there.
look() {
    for file in /etc/p* /usr/l* /none/$1; do test -e "$file"; done
}
for n in 1 2 3; do
    text=$(look $n; echo "line $n"; look $n; echo "more $n")
    echo "$text"
    nested=$(echo $(look a; echo inner $(echo $n)); exit $n); echo "$nested $?"
    echo "file $n" > file; text=$(cat file); echo "$text"
done
none=$(:); echo "none '$none' $?"
text=$(exec >&-; look w; exit 6); echo "closed '$text' $?"
text=$(cat <<END
first $(look v; echo here)
second
END
)
echo "$text"
