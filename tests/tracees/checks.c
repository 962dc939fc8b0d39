/* Changes and checks everything that a process has, and says so in the end. It looks at files all the time,
 * so that a supervisor which mispredicts has its choice. Prints "checks ok" and a sum. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int errors;
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            printf("round %d: not so: %s (%s)\n", round, #what, strerror(errno));                            \
            errors = 1;                                                                                      \
        }                                                                                                    \
    } while (0)

static volatile sig_atomic_t handled;
static void handler(int signal) { handled = signal; }

static unsigned long look(int round) {
    struct stat status;
    char buffer[512], link[64];
    CHECK(stat("/etc/passwd", &status) == 0 && S_ISREG(status.st_mode));
    int file = open("/etc/passwd", O_RDONLY);
    CHECK(file >= 0);
    ssize_t length = 0, got;
    while ((got = read(file, buffer, sizeof buffer)) > 0)
        length += got;
    CHECK(got == 0 && length == status.st_size);
    CHECK(pread(file, buffer, 10, 3) == 10);
    CHECK(lseek(file, 0, SEEK_CUR) == length);
    close(file);
    CHECK(access("/nowhere", F_OK) == -1 && errno == ENOENT);
    CHECK(readlink("/proc/self/exe", link, sizeof link) > 0);
    DIR *directory = opendir("/etc");
    CHECK(directory);
    unsigned long entries = 0;
    while (directory && readdir(directory))
        entries++;
    if (directory)
        closedir(directory);
    struct pollfd poll_file = {0, POLLIN, 0};
    poll(&poll_file, 1, 0);
    return entries + (unsigned long)length;
}

/* A map that others may write to, by which this process never can. */
static void look_at_map(int round) {
    char buffer[64];
    int file = open("/etc/passwd", O_RDONLY);
    ssize_t length = read(file, buffer, sizeof buffer);
    char *map = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && length > 0);
    close(file);
    CHECK(memcmp(map, buffer, (size_t)length) == 0);
    CHECK(mprotect(map, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    look(round);
    CHECK(memcmp(map, buffer, (size_t)length) == 0);
    munmap(map, 4096);
}

/* Devices that keep nothing, and a pipe, which has no position. */
static void look_at_devices(int round) {
    char random[2][16] = {{0}}, zeros[16], nothing[16] = {0};
    int null = open("/dev/null", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(null >= 0 && write(null, "x", 1) == 1 && read(null, zeros, sizeof zeros) == 0);
    CHECK(lseek(null, 5, SEEK_SET) == 0);
    close(null);
    int zero = open("/dev/zero", O_RDONLY);
    memset(zeros, 1, sizeof zeros);
    CHECK(read(zero, zeros, sizeof zeros) == sizeof zeros && !memcmp(zeros, nothing, sizeof zeros));
    close(zero);
    int full = open("/dev/full", O_WRONLY);
    CHECK(write(full, "x", 1) == -1 && errno == ENOSPC);
    close(full);
    int source = open("/dev/urandom", O_RDONLY);
    for (int i = 0; i < 2; i++)
        CHECK(read(source, random[i], sizeof random[i]) == sizeof random[i]);
    CHECK(memcmp(random[0], random[1], sizeof random[0]));
    close(source);
    CHECK(open("/dev/null/", O_RDONLY) == -1 && errno == ENOTDIR);
    int ends[2];
    CHECK(pipe(ends) == 0 && lseek(ends[0], 0, SEEK_CUR) == -1 && errno == ESPIPE);
    close(ends[0]);
    close(ends[1]);
}

/* One that comes while it is ignored is gone, and so is one that has waited until then. */
static void ignore_signals(int round, const struct sigaction *action) {
    struct sigaction is;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    signal(SIGUSR2, SIG_IGN);
    handled = 0;
    look(round);
    CHECK(sigaction(SIGUSR2, 0, &is) == 0 && is.sa_handler == SIG_IGN);
    raise(SIGUSR2);
    CHECK(handled == 0);
    sigaction(SIGUSR2, action, &is);
    CHECK(is.sa_handler == SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR2);
    look(round);
    signal(SIGUSR2, SIG_IGN);
    sigaction(SIGUSR2, action, 0);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    CHECK(handled == 0);
    raise(SIGUSR2);
    CHECK(handled == SIGUSR2);
}

int main(void) {
    unsigned long sum = 0, first = 0;
    char *kept[40] = {0}, here[200], there[200];
    double number = 0.5;
    struct sigaction action = {.sa_handler = handler};
    getcwd(here, sizeof here);
    for (int round = 0; round < 40; round++) {
        unsigned long now = look(round);
        if (!round)
            first = now;
        CHECK(now == first);
        kept[round] = malloc(5000 + (size_t)round * 300);
        memset(kept[round], round, 5000);
        for (int i = 0; i <= round; i++)
            CHECK(kept[i][0] == i && kept[i][4999] == i);
        number = number * 1.01 + round;
        char *memory = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory[4096] = (char)round;
        look_at_map(round);
        look_at_devices(round);
        sum += look(round);
        CHECK(memory[4096] == (char)round && memory[8192] == 0);
        mprotect(memory, 4096, PROT_READ);
        munmap(memory, 16384);
        int copy = dup(1);
        CHECK(copy > 2);
        close(copy);
        mode_t before = umask((mode_t)round & 077);
        CHECK(round == 0 || before == ((mode_t)(round - 1) & 077));
        static int places[2], *place = 0;
        CHECK(syscall(SYS_set_tid_address, &places[round % 2]) == getpid());
        look(round);
        CHECK(prctl(PR_GET_TID_ADDRESS, &place) == 0 && place == &places[round % 2]);
        sigaction(SIGUSR1, &action, 0);
        handled = 0;
        raise(SIGUSR1);
        CHECK(handled == SIGUSR1);
        ignore_signals(round, &action);
        chdir("/usr");
        sum += look(round);
        CHECK(getcwd(there, sizeof there) && !strcmp(there, "/usr"));
        CHECK(chdir(here) == 0);
        if (round % 10 == 3) {
            fflush(stdout);
            pid_t child = fork();
            if (!child)
                _exit(look(round) == first ? round : 255);
            int status;
            CHECK(child > 0 && waitpid(child, &status, 0) == child);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == round);
            char name[32];
            snprintf(name, sizeof name, "file%d", round);
            int file = open(name, O_CREAT | O_RDWR | O_EXCL, 0600);
            CHECK(file >= 0);
            for (int i = 0; i < 50; i++)
                CHECK(dprintf(file, "line %d\n", i) > 0);
            CHECK(lseek(file, 0, SEEK_CUR) > 300);
            close(file);
            mkdir("sub", 0700);
            CHECK(rename(name, "sub/moved") == 0);
            CHECK(unlink("sub/moved") == 0 && rmdir("sub") == 0);
        }
        if (round % 8 == 0)
            printf("round %d: %.6f\n", round, number);
    }
    printf("%s %lu %.9f\n", errors ? "checks failed" : "checks ok", sum, number);
    return errors;
}
