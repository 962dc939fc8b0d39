/* Hands calls memory that is not there yet: pages of a mapped file that nobody has read so far. Whoever looks at them has the file
 * system asked for them. Paths, bytes that are written, what says where those are, and room for what is read. "faults make" makes
 * the file, before; then "faults" prints "faults ok". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "looks.h"

enum { PAGE = 4096, TURNS = 40 };
/* What the pages of a turn hold. */
enum { PATH, NOTHING, ROOM_FOR_ATTRIBUTES, BYTES, QUESTION, ROOM, VECTOR, MORE, MORE_ROOM, MESSAGE, LINE_VECTOR, LINE_BYTES, LINE_ROOM,
       OUTPUT, PAGES };
/* The pipe and the connection, by their ends for reading and for writing. */
enum { FROM_PIPE = 20, TO_PIPE, FROM_LINE, TO_LINE };

static char *const map = (char *)0x200000000;
static int turn, gone;

static char *at(int page) { return map + (turn * PAGES + page) * PAGE; }

static void fill(int file, int page, const void *bytes, size_t length)
{
    is("a page", pwrite(file, bytes, length, at(page) - map), length);
}

static void make(void)
{
    int file = open("pages", O_CREAT | O_RDWR | O_TRUNC, 0600);
    is("its length", ftruncate(file, TURNS * PAGES * PAGE), 0);
    for (turn = 0; turn < TURNS; turn++) {
        struct iovec vector = {at(MORE), 4}, of_line = {at(LINE_BYTES), 4};
        struct msghdr message = {.msg_iov = (struct iovec *)at(LINE_VECTOR), .msg_iovlen = 1};
        struct pollfd question[2] = {{FROM_PIPE, POLLIN, 0}, {FROM_LINE, POLLIN, 0}};
        fill(file, PATH, "/etc/passwd", 12);
        fill(file, NOTHING, "none", 5);
        fill(file, BYTES, "four", 4);
        fill(file, QUESTION, question, sizeof question);
        fill(file, VECTOR, &vector, sizeof vector);
        fill(file, MORE, "more", 4);
        fill(file, MESSAGE, &message, sizeof message);
        fill(file, LINE_VECTOR, &of_line, sizeof of_line);
        fill(file, LINE_BYTES, "line", 4);
        fill(file, OUTPUT, "out ", 4);
    }
}

static void begin(void)
{
    int pipes[2], line[2];
    is("pipe", pipe(pipes), 0);
    is("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
    int from[] = {pipes[0], pipes[1], line[0], line[1]};
    for (int end = 0; end < 4; end++) {
        is("an end", dup2(from[end], FROM_PIPE + end), FROM_PIPE + end);
        close(from[end]);
    }
    int file = open("pages", O_RDONLY);
    void *there = mmap(map, TURNS * PAGES * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
    is("a map", there == map, 1);
    /* No page comes before it is asked for. */
    is("madvise", madvise(map, TURNS * PAGES * PAGE, MADV_RANDOM), 0);
}

static void count_gone(void)
{
    unsigned char there[PAGES];
    is("mincore", mincore(at(0), PAGES * PAGE, there), 0);
    for (int page = 0; page < PAGES; page++)
        gone += !(there[page] & 1);
}

static void read_four(int from, int room, const char *wanted)
{
    is("a read", read(from, at(room), 4), 4);
    is("what was read", memcmp(at(room), wanted, 4), 0);
}

int main(int count, char **arguments)
{
    name = "faults";
    if (count > 1 && strcmp(arguments[1], "make") == 0) {
        make();
        return 0;
    }
    begin();
    for (turn = 0; turn < TURNS; turn++) {
        count_gone();
        look();
        is("a path", access(at(PATH), R_OK), 0);
        is("a path to nothing", access(at(NOTHING), F_OK), -1);
        is("attributes", stat("/", (struct stat *)at(ROOM_FOR_ATTRIBUTES)), 0);
        is("bytes for a pipe", write(TO_PIPE, at(BYTES), 4), 4);
        is("a question", poll((struct pollfd *)at(QUESTION), 2, 0), 1);
        read_four(FROM_PIPE, ROOM, "four");
        is("bytes by a vector", writev(TO_PIPE, (struct iovec *)at(VECTOR), 1), 4);
        read_four(FROM_PIPE, MORE_ROOM, "more");
        is("a message", sendmsg(TO_LINE, (struct msghdr *)at(MESSAGE), 0), 4);
        read_four(FROM_LINE, LINE_ROOM, "line");
        look();
        is("output", write(1, at(OUTPUT), 4), 4);
    }
    is("that pages were gone", gone > 0, 1);
    puts("\nfaults ok");
    return 0;
}
