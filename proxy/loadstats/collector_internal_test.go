package loadstats

import (
	"strings"
	"testing"
	"time"
)

// Only a sample of keys is recorded, each until it is counted. A key that would need too much memory
// is not recorded.
func TestKeySamplesAreLimited(t *testing.T) {
	var l Collector
	l.Sample([]byte("before there is a cluster"))
	l.Start(4)
	full := func() (n int) {
		for i := range l.sampleSlots {
			if l.sampleSlots[i].state.Load() == slotFull {
				n++
			}
		}
		return n
	}
	for range 100 * sampleInterval {
		l.Sample([]byte(strings.Repeat("k", maxSampledKeyLen+1)))
	}
	if n := full(); n > 0 {
		t.Errorf("%d keys of more than %d bytes are kept", n, maxSampledKeyLen)
	}
	now := l.lastUpdate
	for range 3 {
		for range 10 * sampleSlotCount * sampleInterval {
			l.Sample([]byte(strings.Repeat("k", maxSampledKeyLen)))
		}
		if n := full(); n != sampleSlotCount {
			t.Errorf("%d of %d places are taken", n, sampleSlotCount)
		}
		now = now.Add(time.Second)
		l.Update(now)
		if n := full(); n > 0 || len(l.keys.Top(2)) != 1 {
			t.Errorf("%d places are taken after a look, and %d keys are known", n, len(l.keys.Top(2)))
		}
	}
}

// The reported load is an average over seconds, regardless of how often it is requested.
func TestLoadIsMeasuredOncePerSecond(t *testing.T) {
	var l Collector
	l.Update(time.Now()) // no request is counted yet
	l.Start(1)
	first := l.lastUpdate
	l.shards[0].Requests.Add(10)
	if l.Update(first.Add(time.Second - 1)); l.lastUpdate != first || l.rates[0].means[0] != 0 {
		t.Errorf("looked at before a second is over: %+v", l.rates[0])
	}
	if l.Update(first.Add(time.Second)); l.rates[0].means[0] == 0 {
		t.Error("not looked at after a second")
	}
}
