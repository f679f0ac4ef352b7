"""A process like nanoGPT's training: it prints rows; when it is interrupted, it saves, says so, and exits.

    python trainer.py ITERATIONS SECONDS_PER_ROW DONE

DONE is written at the end, or after saving. If a line cannot be printed, it dies, as Python programs do.
"""

import signal
import sys
import time

iterations, each_s, done = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
interrupted = False


def interrupt(*_: object) -> None:
    global interrupted
    interrupted = True


signal.signal(signal.SIGINT, interrupt)
print("Overriding config with config/train.py:", "eval_interval = 20", f"max_iters = {iterations - 1}", sep="\n")
print("tokens per iteration will be: 8,192", "number of parameters: 10.65M", sep="\n", flush=True)
for iteration in range(iterations):
    loss, ms = 3 + 5 / (1 + iteration / 40), 100 + iteration * 7919 % 101 / 500
    if iteration % 20 == 0:
        print(f"step {iteration}: train loss {loss:.4f}, val loss {loss + 0.05:.4f}", flush=True)
        ms += 4000
    print(f"iter {iteration}: loss {loss:.4f}, time {ms:.2f}ms, mfu 18.00%", flush=True)
    time.sleep(each_s)
    if interrupted:
        time.sleep(0.5)
        print("interrupted: saved a checkpoint", flush=True)
        break
with open(done, "w") as file:
    file.write(f"{iteration}")
