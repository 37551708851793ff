/* Runs a model that stops by itself on every row, and leaves its label, trees, time and sums. */
#include "board.h"
#include "model.h"
#include "rows.h"

void on_timer(void)
{
}

int main(void)
{
    static const volatile uint8_t stop = 0;
    static model_state state;
    uint32_t row;
#ifndef WHOLE_ROWS
    static model_input x[MODEL_N_COLUMNS];
#endif
    board_init();
    host_open("records.bin");
    for (row = 0; row < N_ROWS; ++row) {
        struct {
            uint32_t label, trees, ticks;
            int32_t sums[MODEL_N_SUMS];
        } record;
        record.ticks = clock_ticks();
        INIT(&state);
#ifdef WHOLE_ROWS
        model_run(&state, rows[row], &stop);
#else
        model_quantize(rows[row], x);
        model_run(&state, x, &stop);
#endif
        record.label = (uint32_t)model_predict(&state);
        record.ticks = clock_ticks() - record.ticks;
        record.trees = state.trees;
        model_scores(&state, record.sums);
        host_write(&record, sizeof record);
    }
    return 0;
}
