package poison

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"shardway/shardmap"
)

// The records of crashed processes and of the keys of their requests are limited in number and expire.
func TestCrashRecordsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x Recorder
		const more = maxCrashes + 50
		for i := range more {
			x.Record(Process{Node: "n", Boot: uint64(i)}, Implicated{})
		}
		if len(x.mu.byProcess) != maxCrashes || len(x.mu.order) != maxCrashes {
			t.Errorf("%d are remembered, and %d in order, want %d", len(x.mu.byProcess), len(x.mu.order), maxCrashes)
		}
		if x.mu.byProcess[Process{"n", 0}] != nil || x.mu.byProcess[Process{"n", more - 1}] == nil {
			t.Error("the last one made way for the first one")
		}
		time.Sleep(retention)
		w := x.Record(Process{Node: "n", Boot: more - 1}, Implicated{})
		if !w.firstBreak.Before(time.Now()) {
			t.Error("one that is as old as it may be was forgotten")
		}
		time.Sleep(time.Nanosecond)
		if x.Record(Process{Node: "last"}, Implicated{}); len(x.mu.byProcess) != 1 || len(x.mu.order) != 1 {
			t.Errorf("%d are remembered after their time, and %d in order, want the last one alone", len(x.mu.byProcess), len(x.mu.order))
		}
		for i := range 1000 {
			w = x.Record(Process{Node: "last"}, Implicated{Hash: uint64(i)})
		}
		if len(w.keys) > MaxImplicated+1 {
			t.Errorf("%d keys of one process are remembered", len(w.keys))
		}
	})
}

// A crash report contains up to eight implicated keys. It is sent once for each process.
func TestImplicatedKeysAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Crash
		x := Recorder{Report: func(w Crash) { told = append(told, w) }}
		few, many := Process{"few", 3}, Process{"many", 4}
		first := x.Record(few, Implicated{})
		var last *Record
		for i := range MaxImplicated + 1 {
			last = x.Record(many, Implicated{Shard: shardmap.Shard(i)})
			if i < MaxImplicated && x.Record(few, Implicated{Shard: shardmap.Shard(i)}) != first {
				t.Fatal("the end of one process is taken for two")
			}
		}
		if !x.Implicates(first) || x.Implicates(last) {
			t.Errorf("%d keys are implicated: %t, and %d: %t", len(first.keys), x.Implicates(first), len(last.keys), x.Implicates(last))
		}
		time.Sleep(reportDelay)
		synctest.Wait()
		if len(told) != 1 || told[0].Node != "few" || told[0].Boot != 3 || len(told[0].Keys) != MaxImplicated {
			t.Errorf("told %s, want the %d of the third process of few", fmt.Sprint(told), MaxImplicated)
		}
	})
}
