/* RISC-V (QEMU's virt): machine mode, the CLINT's comparator as the timer, its counter as the clock. */
#include "board.h"

#define MTIMECMP ((volatile uint32_t *)0x2004000)
#define MTIME (*(volatile uint32_t *)0x200bff8)
#define NEVER 0xffffffffu

int main(void);
static void trap(void);

__attribute__((section(".start"), naked, used)) void start(void)
{
    __asm__ volatile(
        ".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\n"
        "la sp, stack_top\n"
        "li t0, 0x2000\ncsrs mstatus, t0\n" /* floating point on */
        "la t0, bss_begin\nla t1, bss_end\n1: bgeu t0, t1, 2f\nsw zero, 0(t0)\naddi t0, t0, 4\nj 1b\n2:\n"
        "call main\ncall host_exit\n3: j 3b\n");
}

__attribute__((interrupt("machine"), aligned(4))) static void trap(void)
{
    timer_stop();
    on_timer();
}

void board_init(void)
{
    timer_stop();
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
    __asm__ volatile("csrw mie, %0" ::"r"(0x80u));
    __asm__ volatile("csrs mstatus, %0" ::"r"(0x8u));
}

void timer_start(uint32_t ticks)
{
    MTIMECMP[0] = MTIME + ticks;
    MTIMECMP[1] = 0;
}

void timer_stop(void)
{
    MTIMECMP[1] = NEVER;
}

uint32_t clock_ticks(void)
{
    return MTIME;
}

__attribute__((noinline)) int32_t semihost(int32_t operation, const void *argument)
{
    register int32_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    /* The three instructions must be together, uncompressed and on one page. */
    __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}
