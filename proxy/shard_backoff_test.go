package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/shardmap"
)

// One of the requests that wait for a busy owner probes it, and the others queue behind it. A request
// of another shard is not part of this queue. Once, when all connections to the owner's app were in
// use, each waiting request of an ingress probed the owner five times a second and was refused after a
// wait in the owner's queue.
func TestOneWaiterProbesBusyOwner(t *testing.T) {
	const waiters, waits = 200, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, _ := dialedPair(t, func(o *proxy.Options) {
			o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait, o.FirstByteTimeout = 4, 2, time.Minute, time.Minute
		})
		refused := func() int { return int(metric(t, owner, "shardway_refused_total", "busy")) }
		stuck := ingress.sendManyRequests(2, "GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") // the response takes half a minute
		synctest.Wait()
		crowd := ingress.atOnce(waiters, "/x")
		time.Sleep(time.Second) // until each has been refused
		if w := ingress.room.Stats().Waiting; w < waiters*9/10 {
			t.Fatalf("%d wait, want nearly all of them", w)
		}
		before, awakened := refused(), ingress.room.Stats().Released
		time.Sleep(waits)
		const most = int(waits/(200*time.Millisecond)) + 10
		if got := refused() - before; got == 0 || got > most {
			t.Errorf("the owner refused %d times in %v, want %d at most", got, waits, most)
		}
		if got := int(ingress.room.Stats().Released - awakened); got > most {
			t.Errorf("waiters were awakened %d times in %v, want %d at most", got, waits, most)
		}
		other := "o"
		for shardmap.ShardOf(other, shards) == shardmap.ShardOf("k", shards) {
			other += "o"
		}
		began, beside := time.Now(), ingress.dial()
		beside.send("GET /beside HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", other)
		if res, body := beside.answer("GET"); res.StatusCode != 200 || time.Since(began) > 200*time.Millisecond {
			t.Errorf("another shard: %v %s after %v", res.Status, body, time.Since(began))
		}
		_ = beside.Close()
		served(t, stuck)
		back := time.Now()
		served(t, crowd)
		if took := time.Since(back); took > time.Second {
			t.Errorf("the last one was served %v after the app had time for it", took)
		}
		time.Sleep(time.Second) // no request waits, so the back-off starts from zero
		began = time.Now()
		served(t, ingress.sendMany(1))
		if took := time.Since(began); took != 0 {
			t.Errorf("a request after that took %v", took)
		}
	})
}

// A request that waits for a busy owner is sent as soon as an earlier request ends there, so the app
// stays fully used.
func TestBusyOwnerIsKeptBusy(t *testing.T) {
	const waiters, slow = 20, time.Second / 2
	synctest.Test(t, func(t *testing.T) {
		ingress, _, _, _ := dialedPair(t, func(o *proxy.Options) {
			o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait = 2, 2, time.Minute
		})
		began := time.Now()
		served(t, ingress.atOnce(waiters, "/slow"))
		if took, least := time.Since(began), waiters/2*slow; took > least+least/20 {
			t.Errorf("%d requests of %v by two connections took %v, want about %v", waiters, slow, took, least)
		}
	})
}
