#pragma once

#include "strategies/schedule.h"

/// The built-in schedules. Each takes any number of microbatches, fewer than ranks included; what it cannot take (stages per rank, a
/// setting that means nothing to it) is refused with the rule and the nearest legal value. Peaks are numbers of activations of one stage
/// and microbatch; closed forms are in times of a stage as it sits on its rank.
namespace skirl {

/// All forwards, then all backwards. Huang et al., arXiv:1811.06965.
ScheduleTable gpipe(const ScheduleParams& params);
/// "1f1b": rank r of p warms up with p−1−r forwards, then alternates one forward and one backward, so that it holds at most p−r
/// activations. Bubble (p−1)(F+B). Narayanan et al., arXiv:2006.09503.
ScheduleTable one_f_one_b(const ScheduleParams& params);
/// "seq1f1b": 1F1B over parts of sequences (2 unless `sequence_parts` says otherwise); a backward starts with the last part. Microbatch
/// m·k + i of the table is part i of microbatch m. Sun et al., arXiv:2406.03488.
ScheduleTable seq1f1b(const ScheduleParams& params);

/// "looped_bfs": several stages a rank; all microbatches go through one stage before the next starts, backwards the other way round.
/// Lamy-Poirier, arXiv:2211.05953.
ScheduleTable looped_bfs(const ScheduleParams& params);
/// "interleaved": 1F1B over several stages a rank, in rounds of about p microbatches. Bubble (p−1)(F+B). Narayanan et al.,
/// arXiv:2104.04473.
ScheduleTable interleaved(const ScheduleParams& params);
/// "grouped": the same with a warm-up of one forward a rank, `group` microbatches a round (at most and by default p) and the backwards
/// split, so that fewer activations are held. Scheduler `group_interleaved_1f1b` of sail-sg/zero-bubble-pipeline-parallelism.
ScheduleTable grouped_interleaved(const ScheduleParams& params);
/// "interleaved_zb": interleaved with backwards split; rank r runs the weights r cells behind. Bubble (p−1)(F+B−2W).
ScheduleTable interleaved_zero_bubble(const ScheduleParams& params);

/// "zb1p": zero bubble at the memory of 1F1B: rank r runs the weights r microbatches behind. Bubble (p−1)(F+B−2W), peak p.
/// Qi et al., arXiv:2401.10241.
ScheduleTable zb1p(const ScheduleParams& params);
/// "zbh1": the same bubble and peak with as few split backwards as it needs: those of the first r microbatches, and of the last ones.
ScheduleTable zbh1(const ScheduleParams& params);
/// "zb2p": zero bubble at twice the memory of 1F1B: no rank idles between its first and its last cell where m ≥ 2p−1. Peak 2p.
ScheduleTable zb2p(const ScheduleParams& params);

/// "zbv": two stages a rank in a V; no rank idles between its first and its last cell where m ≥ 2p−1. Peak 2p, the memory of 1F1B.
/// Qi et al., arXiv:2405.15362.
ScheduleTable zbv(const ScheduleParams& params);
/// Its closed form. Below 2p−1 microbatches the surplus is struck out, which leaves more idle than "zbv" does.
ScheduleTable zbv_closed(const ScheduleParams& params);
/// "vhalf": a V at about half the memory of 1F1B. The same paper.
ScheduleTable vhalf(const ScheduleParams& params);
/// "vmin": a V at about a third of the memory of 1F1B. The same paper.
ScheduleTable vmin(const ScheduleParams& params);

/// "dualpipe": microbatches enter at both ends, the first half (rounded up) at rank 0; forwards and backwards of opposite directions
/// overlap. An even number of ranks. Bubble (p/2−1)(F&B+B−3W), peak p+1. DeepSeek-AI, arXiv:2412.19437.
ScheduleTable dualpipe(const ScheduleParams& params);
/// "dualpipev": the same cut in half: two stages a rank in a V. Bubble (p−1)(F&B+B−3W), peak 2p+1.
ScheduleTable dualpipev(const ScheduleParams& params);

/// "list": a table found for given times and memory, see strategies/list_scheduler.h. Stages lie in a loop; `memory` is that of 1F1B, one
/// activation a stage, unless it is given.
ScheduleTable list_table(const ScheduleParams& params);

}  // namespace skirl
