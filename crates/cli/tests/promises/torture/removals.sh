# Directories are removed, one of them while a shell works in it. What rmdir prints differs from language to language.
mkdir -p top/middle/bottom
echo text >top/file
stat -c %n top
rmdir top/middle/bottom && echo removed
test -d top/middle/bottom || echo gone
mkdir top/middle/bottom && rmdir top/middle/bottom && echo again
rmdir top 2>/dev/null || echo "not empty"
cd top/middle
mkdir dead
(
    cd dead
    rmdir ../dead
    echo text 2>/dev/null >file || echo "no file"
    mkdir one 2>/dev/null || echo "no directory"
    ls
    stat -c %h .
)
cd ../..
for number in 1 2 3 4 5; do
    directory=$(mktemp -d ./XXXXXX)
    echo "$number" >"$directory/number"
    cat "$directory/number"
    rm -r "$directory"
done
ls
rm -r top
ls
