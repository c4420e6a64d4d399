package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// Many requests to one slow app must not delay a request for another shard whose owner appears a
// moment later. Requests that wait for a slow app use no CPU time on this node, so the pacer releases
// more of them.
func TestSlowShardDoesNotDelayOtherShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = 50 * time.Millisecond
		q := queue.New(queue.Options{Batch: 8, Pace: pace, CPUUsage: preempted()})
		for range 2000 {
			tk := enter(t, q, 1, 0)
			go func() {
				if tk.Wait(nil, 0, 0) == nil {
					time.Sleep(time.Second) // the app is slow
				}
				tk.Leave()
			}()
		}
		synctest.Wait()
		q.Wake(1)
		time.Sleep(pace / 2)
		other := startWait(enter(t, q, 2, 0), nil, 1, 0) // its shard has no owner for a moment
		synctest.Wait()
		q.Wake(2)
		began := time.Now()
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 8*pace {
			t.Errorf("the request for the other shard waited %v, although its owner was available", took)
		}
		time.Sleep(10 * time.Second)
	})
}
