//go:build linux

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shardway/e2e/cluster"
	"shardway/e2e/history"
	"shardway/e2e/load"
)

// sample is a set of times, in nanoseconds.
type sample []int64

func (s *sample) add(d int64) { *s = append(*s, d) }

// at is the time below which the share q of the sample lies.
func (s sample) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / float64(time.Millisecond)
}

// report prints median, p90 and maximum in milliseconds.
func (s sample) report(b *testing.B, name string) {
	b.Helper()
	b.ReportMetric(s.at(0.5), name+"-median-ms")
	b.ReportMetric(s.at(0.9), name+"-p90-ms")
	b.ReportMetric(s.at(1), name+"-max-ms")
}

// onDisk starts three nodes whose data is on a real disk.
func onDisk(b *testing.B, flags ...string) *cluster.Cluster {
	b.Helper()
	return cluster.Start(b, cluster.Options{Binaries: binaries(b), Nodes: 3, Shards: shards, Flags: flags, Dir: b.TempDir()})
}

// BenchmarkKill is the time from kill -9 of a node to the first answer for one
// of its keys, and to the answers for all of eight, at the survivors' ports.
func BenchmarkKill(b *testing.B) {
	for _, fence := range []string{"lease", "refused"} {
		for _, role := range []string{"follower", "leader"} {
			b.Run(fence+"/"+role, func(b *testing.B) {
				c := onDisk(b, "--fence", fence)
				var first, all sample
				for b.Loop() {
					victim := c.Follower(b)
					if role == "leader" {
						victim = c.Leader(b)
					}
					began, answers := killAndAsk(b, c, victim)
					first.add(answers[0] - began)
					all.add(answers[len(answers)-1] - began)
					c.AwaitServing(b)
					victim.Start(b)
					c.AwaitServing(b)
				}
				first.report(b, "first")
				all.report(b, "all")
				floor(b, c)
			})
		}
	}
}

// killAndAsk returns when the victim was killed and when its keys were answered,
// in order.
func killAndAsk(b *testing.B, c *cluster.Cluster, victim *cluster.Node) (began int64, answers []int64) {
	b.Helper()
	const keys = 8
	mine := c.AwaitServing(b).Keys(victim.ID, 1)[:keys]
	others := c.Others(victim)
	began = history.Now()
	victim.Kill(b)
	var asking []*cluster.Asking
	for i, key := range mine {
		asking = append(asking, c.AskLater(b, others[i%len(others)], load.Request{Key: key}))
	}
	for _, a := range asking {
		got := a.Answer(b)
		if !got.OK() {
			b.Fatalf("key %q of killed %s: %d %s %s", got.Key, victim.ID, got.Status, got.Error, got.Detail)
		}
		answers = append(answers, got.Done())
	}
	slices.Sort(answers)
	return began, answers
}

// BenchmarkColdStart is the time from the start of three processes with empty
// directories to the moment when all three serve.
func BenchmarkColdStart(b *testing.B) {
	var took sample
	for b.Loop() {
		c := cluster.New(b, cluster.Options{Binaries: binaries(b), Shards: shards, Dir: b.TempDir()})
		for range 3 {
			c.Prepare(b, "--expect", "3")
		}
		c.Acquaint()
		began := history.Now()
		for _, n := range c.Nodes() {
			n.Start(b)
		}
		c.AwaitShards(b, c.Nodes()...)
		took.add(history.Now() - began)
		for _, n := range c.Nodes() {
			n.Kill(b)
		}
	}
	took.report(b, "serving")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSigterm is the longest time that a request took while a node, the
// leader every other time, left under load and came back.
func BenchmarkSigterm(b *testing.B) {
	c := onDisk(b)
	var leave, back sample
	leader := false
	for b.Loop() {
		leader = !leader
		n := c.Follower(b)
		if leader {
			n = c.Leader(b)
		}
		l := c.Load(b, c.Running(), cluster.Traffic{})
		l.Flow(b, seconds/2)
		n.Stop(b)
		c.AwaitServing(b)
		l.End(b)
		leave.add(longest(b, l))
		l = c.Load(b, c.Others(n), cluster.Traffic{})
		n.Start(b)
		c.AwaitServing(b)
		l.Flow(b, seconds/4)
		l.End(b)
		back.add(longest(b, l))
	}
	c.Judge(b, nil)
	leave.report(b, "leave")
	back.report(b, "back")
	floor(b, c)
}

func longest(b *testing.B, l *cluster.Load) int64 {
	b.Helper()
	var most int64
	for _, a := range l.Answers() {
		most = max(most, a.Done()-a.Sent())
	}
	return most
}

// floor prints what the machine itself takes, in the same run: a fsync beside
// the nodes' data, a refused connection, and a request through a node to its app
// when nothing happens.
func floor(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	const times = 50
	f, err := os.Create(filepath.Join(c.Dir(), "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var fsync, redial, proxied sample
	n := c.Running()[0]
	key := c.AwaitServing(b).Keys(n.ID, 1)[0]
	for i := range times {
		fsync.add(timed(func() {
			if _, err := f.WriteString("a record of the log"); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}))
		redial.add(timed(func() {
			if conn, err := net.Dial("tcp", "127.0.0.1:1"); err == nil {
				_ = conn.Close()
			}
		}))
		a := c.Ask(b, n, load.Request{ID: fmt.Sprint("floor", i), Key: key})
		proxied.add(a.Done() - a.Sent())
	}
	b.ReportMetric(fsync.at(0.5), "floor-fsync-ms")
	b.ReportMetric(redial.at(0.5), "floor-redial-ms")
	b.ReportMetric(proxied.at(0.5), "floor-request-ms")
	b.ReportMetric(0, "ns/op")
}

func timed(f func()) int64 {
	began := history.Now()
	f()
	return history.Now() - began
}
