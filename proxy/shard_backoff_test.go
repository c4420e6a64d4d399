package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/shardmap"
)

// With all connections to the owner's app in use each of those who waited at an
// ingress asked for itself, five times a second, and was refused after a wait in the
// owner's line. Now one asks, and the others are in line; and who asks for another
// shard is not among them.
func TestOneWaiterProbesBusyOwner(t *testing.T) {
	const waiters, waits = 200, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, _ := dialedPair(t, func(o *proxy.Options) {
			o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait, o.FirstByteTimeout = 4, 2, time.Minute, time.Minute
		})
		refused := func() int { return int(metric(t, owner, "shardway_refused_total", "busy")) }
		stuck := ingress.sendManyRequests(2, "GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") // half a minute
		synctest.Wait()
		crowd := ingress.atOnce(waiters, "/x")
		time.Sleep(time.Second) // until each has been told
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
		time.Sleep(time.Second) // nobody waits: it is as if nothing had been
		began = time.Now()
		served(t, ingress.sendMany(1))
		if took := time.Since(began); took != 0 {
			t.Errorf("a request after that took %v", took)
		}
	})
}

// Who waits for a busy owner goes on as soon as a request before it is done there: its
// app is kept as busy as it was.
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
