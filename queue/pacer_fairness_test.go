package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// A crowd whose app takes its time for each keeps nobody waiting whose shard is there a
// moment later: what most of a round are still away for costs no processor time here, so more go.
func TestACrowdDoesNotHoldUpTheRequestsOfOtherShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = 50 * time.Millisecond
		r := queue.New(queue.Options{Batch: 8, Pace: pace, CPUUsage: preempted()})
		for range 2000 {
			tk := enter(t, r, 1, 0)
			go func() {
				if tk.Wait(nil, 0, 0) == nil {
					time.Sleep(time.Second) // at the app
				}
				tk.Leave()
			}()
		}
		synctest.Wait()
		r.Wake(1)
		time.Sleep(pace / 2)
		other := waiting(enter(t, r, 2, 0), nil, 1, 0) // its shard moves, for a moment
		synctest.Wait()
		r.Wake(2)
		began := time.Now()
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 8*pace {
			t.Errorf("the request of the other shard waited for %v though its owner was there", took)
		}
		time.Sleep(10 * time.Second)
	})
}
