/* A parent in vfork whose child lives until standard input ends. */
#include <unistd.h>

int main(void)
{
    char byte;
    if (vfork() == 0) {
        while (read(0, &byte, 1) > 0) {
        }
        _exit(0);
    }
    write(1, "parent goes on\n", 15);
    return 0;
}
