/* A checkpoint within a checkpoint. What was written before both, between them and after them differs; so
 * does what was mapped, and where a file stands. It asks its supervisor as image.c does, with the number of
 * a checkpoint above the lowest byte. Prints "nested ok after N". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };
enum { OUTER = 1 << 8, INNER = 2 << 8 };
enum { PAGES = 60 };
static const long size = 4096;

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static char *memory, *mapped[4];
/* One that each stage moves, one that is opened between both checkpoints, and one that the last stage alone moves. */
static int file, young, rare;

static int temporary(void) {
    char path[] = P_tmpdir "/nested.XXXXXX";
    int opened = mkstemp(path);
    unlink(path);
    return opened;
}

/* Where a file stands, by a look that does not touch it. */
static long stands(int number) {
    char path[64];
    long position = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", number);
    FILE *told = fopen(path, "r");
    if (told && fscanf(told, "pos: %ld", &position) != 1)
        position = -1;
    if (told)
        fclose(told);
    return position;
}

static void on_one(int signal) { (void)signal; }
static void on_other(int signal) { (void)signal; }

/* What a page holds at a stage: the last stage that wrote it. */
static char wanted(int page, int stage) {
    for (; stage > 1; stage--)
        if (page % stage == 0)
            return (char)stage;
    return 1;
}

static void become(int stage) {
    for (int page = 0; page < PAGES; page++)
        if (page % stage == 0)
            memory[page * size] = (char)stage;
    mapped[stage] = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[stage][0] = (char)stage;
    lseek(file, stage * 100, SEEK_SET);
    if (stage == 2)
        young = temporary();
    if (stage >= 2)
        lseek(young, stage * 100, SEEK_SET);
    if (stage == 3) {
        /* By another number than at the checkpoints. */
        dup2(rare, 50);
        close(rare);
        lseek(50, 300, SEEK_SET);
    }
    signal(SIGUSR1, stage % 2 ? on_one : on_other);
}

static void fail(int stage, const char *what) {
    printf("stage %d: %s\n", stage, what);
    fflush(stdout);
    _exit(3);
}

static void check(int stage) {
    unsigned char resident;
    struct sigaction action;
    for (int page = 0; page < PAGES; page++)
        if (memory[page * size] != wanted(page, stage))
            fail(stage, "a page is of another stage");
    for (int one = 1; one <= 3; one++) {
        if (one <= stage ? !mapped[one] || mapped[one][0] != one : mapped[one] != 0)
            fail(stage, "a mapping is of another stage");
        if (mapped[one] && mincore(mapped[one], size, &resident))
            fail(stage, "a mapping is lost");
    }
    if (lseek(file, 0, SEEK_CUR) != stage * 100)
        fail(stage, "the file stands elsewhere");
    if (stage >= 2 && stands(young) != stage * 100)
        fail(stage, "the younger file stands elsewhere");
    if (stands(stage == 3 ? 50 : rare) != (stage == 3 ? 300 : 7))
        fail(stage, "the file that is seldom moved stands elsewhere");
    sigaction(SIGUSR1, 0, &action);
    if (action.sa_handler != (stage % 2 ? on_one : on_other))
        fail(stage, "the handler is another stage's");
}

int main(void) {
    file = temporary();
    rare = temporary();
    lseek(rare, 7, SEEK_SET);
    memory = mmap(0, PAGES * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    become(1);
    long outer = ask(OUTER | TAKE);
    check(1);
    become(2);
    long inner = ask(INNER | TAKE);
    check(2);
    become(3);
    ask(INNER | BACK);
    check(3);
    ask(OUTER | BACK);
    check(3);
    ask(INNER | DISCARD);
    ask(OUTER | DISCARD);
    printf("nested ok after %ld and %ld\n", outer, inner);
    return 0;
}
