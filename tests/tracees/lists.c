/* Reads a directory in pieces. Whenever it reads less of a file than there is, which never happens, it removes names and begins
 * anew. Each name has to come once. Prints "lists ok". */
#define _GNU_SOURCE
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "wrong.h"

enum { NAMES = 12, ROUNDS = 40 };

static int seen[NAMES];

/* Reads a few names. */
static long list(int directory) {
    char piece[120];
    long length = syscall(SYS_getdents64, directory, piece, sizeof piece);
    for (long at = 0; at < length;) {
        struct dirent64 *entry = (struct dirent64 *)(piece + at);
        if (entry->d_name[0] != '.')
            seen[entry->d_name[0] - 'a']++;
        at += entry->d_reclen;
    }
    return length;
}

static void name(char *path, int number) {
    sprintf(path, "listed/%c", 'a' + number);
}

int main(void) {
    char path[16];
    int other = open_other();
    mkdir("listed", 0700);
    for (int number = 0; number < NAMES; number++) {
        name(path, number);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(seen, 0, sizeof seen);
        int directory = open("listed", O_RDONLY | O_DIRECTORY);
        list(directory);
        if (is_wrong(other)) {
            for (int number = 0; number < NAMES / 2; number++) {
                name(path, number);
                unlink(path);
            }
            lseek(directory, 0, SEEK_SET);
            while (list(directory) > 0)
                ;
        }
        while (list(directory) > 0)
            ;
        for (int number = 0; number < NAMES; number++) {
            name(path, number);
            check(round, path, seen[number], 1);
        }
        close(directory);
    }
    return checked("lists ok");
}
