/* Cortex-M4 (QEMU's mps2-an386): vectors, SysTick as the timer, a second timer as the clock. */
#include "board.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REGISTER(0xe000e010)
#define SYST_RVR REGISTER(0xe000e014)
#define SYST_CVR REGISTER(0xe000e018)
#define CPACR REGISTER(0xe000ed88)
#define TIMER0_CTRL REGISTER(0x40000000)
#define TIMER0_VALUE REGISTER(0x40000004)
#define TIMER0_RELOAD REGISTER(0x40000008)

extern uint32_t stack_top, data_source, data_begin, data_end, bss_begin, bss_end;
int main(void);

static void reset(void)
{
    uint32_t *to, *from = &data_source;
    for (to = &data_begin; to < &data_end;) *(volatile uint32_t *)to++ = *from++;
    for (to = &bss_begin; to < &bss_end;) *(volatile uint32_t *)to++ = 0;
    CPACR |= 0xfu << 20; /* floating point on */
    __asm__ volatile("dsb\nisb");
    main();
    host_exit();
}

static void hang(void)
{
    for (;;) {
    }
}

static void systick(void)
{
    SYST_CSR = 0;
    on_timer();
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))&stack_top, reset, hang, hang, hang, hang, hang, 0, 0, 0, 0, hang, hang, 0, hang, systick,
};

void board_init(void)
{
    TIMER0_RELOAD = 0xffffffffu;
    TIMER0_VALUE = 0xffffffffu;
    TIMER0_CTRL = 1;
}

void timer_start(uint32_t ticks)
{
    SYST_RVR = ticks;
    SYST_CVR = 0;
    SYST_CSR = 7;
}

void timer_stop(void)
{
    SYST_CSR = 0;
}

uint32_t clock_ticks(void)
{
    return ~TIMER0_VALUE;
}

int32_t semihost(int32_t operation, const void *argument)
{
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
