/* Changes a file in many ways, each after a child has opened the file and exited. Where the exit of a child is held, its file
 * stays open, and each change waits for the child's end. Prints "gives ok". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int errors;
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            printf("not so: %s (%s)\n", #what, strerror(errno));                                             \
            errors = 1;                                                                                      \
        }                                                                                                    \
    } while (0)

static void look(const char *path) {
    struct stat status;
    int told;
    stat("/usr", &status);
    if (!fork()) {
        int file = open(path, O_RDONLY);
        stat("/bin", &status);
        _exit(file < 0);
    }
    CHECK(wait(&told) > 0 && told == 0);
}

int main(void) {
    struct stat status;
    stat("/etc", &status);
    int file = open("one", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(write(file, "one\n", 4) == 4);
    close(file);
    look("one");
    file = open("one", O_WRONLY | O_TRUNC);
    CHECK(file >= 0);
    CHECK(write(file, "two\n", 4) == 4);
    look("one");
    CHECK(ftruncate(file, 1) == 0);
    look("one");
    CHECK(pwrite(file, "xyz", 3, 5) == 3);
    look("one");
    CHECK(write(file, "w", 1) == 1);
    look("one");
    CHECK(rename("one", "other") == 0);
    look("other");
    CHECK(truncate("other", 6) == 0);
    look("other");
    CHECK(fallocate(file, 0, 0, 20) == 0);
    CHECK(stat("other", &status) == 0 && status.st_size == 20);
    close(file);
    CHECK(unlink("other") == 0);
    if (!errors)
        printf("gives ok\n");
    return errors;
}
