/* Gives up a file that it maps as others may write to it, and a descriptor that only names a place. In
 * one round it unlinks the file, and makes a pipe of the name that the kernel tells of such a file, which
 * nobody writes to. It asks its supervisor as image.c does, and prints "shares ok after N". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };
/* For how many rounds the file has its name. */
enum { NAMED = 10 };

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static void fail(long round, const char *what) {
    printf("round %ld: %s\n", round, what);
    fflush(stdout);
    _exit(3);
}

int main(void) {
    char directory[] = P_tmpdir "/shares.XXXXXX", path[64], other[64], link[64];
    if (!mkdtemp(directory))
        return 2;
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other, sizeof other, "%s/file (deleted)", directory);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    pwrite(file, "begin", 5, 0);
    volatile char *shared = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    int place = open(directory, O_PATH), closing = open(directory, O_PATH | O_CLOEXEC);
    int first = open(path, O_RDONLY), second = dup(first);

    long round = ask(TAKE);

    if (memcmp((char *)shared, "begin", 5) != 0)
        fail(round, "the file is not mapped");
    pwrite(file, "!", 1, 0);
    if (round <= NAMED && shared[0] != '!')
        fail(round, "what is mapped is a copy");
    pwrite(file, "b", 1, 0);
    char number[32];
    snprintf(number, sizeof number, "/proc/self/fd/%d", place);
    ssize_t length = readlink(number, link, sizeof link - 1);
    if (length < 0 || (link[length] = 0, strcmp(link, directory)) != 0)
        fail(round, "a descriptor names another place");
    if (fcntl(place, F_GETFL) != (O_PATH | O_DIRECTORY) && fcntl(place, F_GETFL) != O_PATH)
        fail(round, "a descriptor does more than to name a place");
    if (fcntl(place, F_GETFD) != 0 || fcntl(closing, F_GETFD) != FD_CLOEXEC)
        fail(round, "flags of descriptors are not what they were");
    if (lseek(place, 0, SEEK_CUR) != -1)
        fail(round, "a place has a position");
    char bytes[2];
    if (read(first, bytes, 1) != 1 || read(second, bytes + 1, 1) != 1 || memcmp(bytes, "be", 2) != 0)
        fail(round, "two descriptors of one file do not stand where they did");

    munmap((void *)shared, 4096);
    close(closing);
    close(place);
    if (round % 3 == 1)
        dup2(1, place);
    if (round == NAMED) {
        unlink(path);
        mkfifo(other, 0600);
    }

    ask(BACK);

    unlink(path);
    unlink(other);
    rmdir(directory);
    printf("shares ok after %ld\n", round);
    ask(DISCARD);
    return 0;
}
