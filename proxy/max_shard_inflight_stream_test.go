package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// crowds queues four requests of the stream's shard and moves the shard to an owner where this number
// of its requests waits for the limit.
func (w *streamWorld) crowds(many int) {
	w.t.Helper()
	w.front.swap(1, 2, held(route.ReasonMoving))
	w.front.atOnce(4, "/x")
	w.first.swap(2, 2, local(1))
	w.front.swap(2, 2, remote("first", 1))
	if many < 4 {
		w.another()
	}
	time.Sleep(time.Second)
	synctest.Wait()
	if n := w.front.room.Stats().Waiting; n != many {
		w.t.Fatalf("%d wait, want %d", n, many)
	}
}

// A resumed event stream keeps its place and does not wait for the limit of its shard. Once, if
// requests waited for that limit, the client's node refused the next upstream connection of the stream
// and aborted the stream.
func TestResumedStreamIgnoresShardLimitQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreams(t, false, fastRamp, func(o *proxy.Options) { o.MaxShardInflight = 1 })
		l := w.opens(getEvents).begins(resumable, "id: 1\ndata: a\n\n")
		w.reads("id: 1\ndata: a\n\n")
		w.crowds(3)
		_ = l.Close()
		began := time.Now()
		w.another().wants(t, "1", "1").begins(resumable, "id: 2\ndata: b\n\n")
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the next leg began after %v", took)
		}
		w.reads("id: 2\ndata: b\n\n")
	})
}
