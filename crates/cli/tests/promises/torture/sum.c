#include <stdio.h>
int f1(int), f2(int), f3(int), f4(int), f5(int), f6(int);
int main(void) {
    printf("%d\n", f1(1) + f2(2) + f3(3) + f4(4) + f5(5) + f6(6));
}
