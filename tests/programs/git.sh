#!/bin/sh
# A git repository from its first commit to a collection of garbage: branches, a rebase, a merge with a conflict, tags.
# All dates are fixed, so every object has the same name each time.
set -eu
[ "${1-}" != prepare ] || {
    command -v git >/dev/null || { echo "there is no git here" && exit 77; }
    exit 0
}

export GIT_AUTHOR_NAME=author GIT_AUTHOR_EMAIL=author@example.org
export GIT_COMMITTER_NAME=committer GIT_COMMITTER_EMAIL=committer@example.org
export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat GIT_EDITOR=true
minutes=0

# commit MESSAGE [FILE]: each is a minute after the one before.
commit() {
    minutes=$((minutes + 1))
    GIT_AUTHOR_DATE="2001-02-03T04:$(printf %02d "$minutes"):00Z"
    GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
    git add -A
    git commit -q -m "$1"
}

git init -q -b main project
cd project
git config gc.auto 0
# One thread packs, so that the pack is the same each time.
git config pack.threads 1

for number in 1 2 3 4 5; do
    seq "$number" 40 >"file$number"
    mkdir -p "directory$number"
    echo "text $number" >"directory$number/text"
    commit "number $number"
done
git tag -a -m 'the first' v1

git checkout -q -b topic HEAD~2
echo topic >topic
commit 'a topic'
sed 's/^20$/twenty/' file1 >new && mv new file1
commit 'a change of the topic'
git rebase -q main
git log --format='%h %ad %s' --date=iso-strict

git checkout -q main
sed 's/^20$/XX/' file1 >new && mv new file1
commit 'another change'
git merge -q topic >merged 2>&1 && echo 'FAILED: no conflict'
grep CONFLICT merged
rm merged
git status --short
sed -n '/^<<<<<<<\|^=======\|^>>>>>>>/p' file1
seq 1 40 | sed 's/^20$/both/' >file1
commit 'both changes'
git cherry-pick --allow-empty topic >/dev/null 2>&1 || git cherry-pick --abort

git mv file2 moved
git rm -q file3
chmod +x file4
ln -s file4 link
commit 'names and modes'
git show --stat --summary --format=%s
git stash list
echo stashed >>moved
git stash push -q && git stash pop -q
git diff --stat
git checkout -q -- moved

git clone -q --no-hardlinks . ../clone
git gc -q --prune=now
git fsck --strict --full
git count-objects -v | grep -v '^size'
git log --graph --format='%h %s' --all
git ls-files -s
test -z "$(git status --short)"
git -C ../clone log -1 --format=%H
git -C ../clone fsck --strict
# The index has times and the numbers of files in it.
rm .git/index ../clone/.git/index
