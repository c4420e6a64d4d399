package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// crowds has four requests of the stream's shard wait for that, and go on to an owner with
// whom so many of them wait for its bound.
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

// An event stream had its place: its next leg was refused by its client's node, which cut it,
// where requests waited for their shard's bound.
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
