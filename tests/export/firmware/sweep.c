/* Interrupts an anytime model after ever longer periods, until it is done before the interrupt, for every row.
 * Each run leaves a record: what the interrupt saw and predicted, and what was predicted once the model had stopped. */
#include "board.h"
#include "model.h"
#include "rows.h"

struct record {
    uint32_t row, ticks, fired, position, label, last_position, last_label;
    int32_t sums[MODEL_N_SUMS];
    uint32_t nodes[MODEL_N_TREES];
};

static model_state state;
static volatile uint8_t stop;
static struct record record;

void on_timer(void)
{
    uint32_t tree;
    record.fired = 1;
    record.label = model_predict(&state);
    model_scores(&state, record.sums);
    record.position = state.position;
    for (tree = 0; tree < MODEL_N_TREES; ++tree) record.nodes[tree] = state.node[tree];
    stop = 1;
}

static uint32_t time_of_run(const model_input *x, uint8_t stopped)
{
    uint32_t begin;
    model_init(&state);
    stop = stopped;
    begin = clock_ticks();
    model_run(&state, x, &stop);
    return clock_ticks() - begin;
}

int main(void)
{
    static model_input x[MODEL_N_COLUMNS];
    uint32_t ticks;
    board_init();
    host_open("records.bin");
    for (record.row = 0; record.row < N_ROWS; ++record.row) {
        uint32_t times[2];
        model_quantize(rows[record.row], x);
        times[0] = time_of_run(x, 0);
        times[1] = time_of_run(x, 1);
        host_write(times, sizeof times);
        for (ticks = STRIDE;; ticks += STRIDE) {
            model_init(&state);
            stop = 0;
            record.ticks = ticks;
            record.fired = 0;
            timer_start(ticks);
            model_run(&state, x, &stop);
            timer_stop();
            record.last_position = state.position;
            record.last_label = model_predict(&state);
            host_write(&record, sizeof record);
            if (!record.fired) break;
        }
    }
    return 0;
}
