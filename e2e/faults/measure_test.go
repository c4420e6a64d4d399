//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

const (
	// rate is the number of requests per second of all clients.
	rate = 400
	// before and after are the numbers of requests before and after a fault.
	before, after = 120, 60
	// running is the number of requests of scene.long, and runs the duration of each:
	// longer than dead-after.
	running = 4
	runs    = "2800ms"
)

// scene describes clients and nodes during a measurement.
type scene struct {
	// to are the nodes to which clients send.
	to []*cluster.Node
	// victim is the affected node: every other request is for one of its keys. nil means
	// that requests are for all keys equally.
	victim *cluster.Node
	// long adds some long requests on the other nodes.
	long bool
}

// measure sends requests while do runs, and waits until the cluster serves again.
func (s *stage) measure(at scene, do func()) faults.Trial {
	tb := s.tb
	tb.Helper()
	otherNodes := s.c.Others(at.victim)
	was := s.committed(otherNodes)
	held := s.queued(otherNodes)
	keys, slow := keysFor(was, at)
	client := load.NewClient(cluster.Addrs(at.to), nil)
	defer client.Close()
	s.loads++
	generator := load.Start(context.WithoutCancel(tb.Context()), load.Options{
		Client: client, Rate: rate, Keys: keys, Prefix: fmt.Sprintf("f%d", s.loads), Timeout: 30 * time.Second,
		RetryFailed: true,
	})
	defer generator.Stop()
	awaitStarted(tb, generator, before)
	var long []*cluster.AsyncRequest
	for i, key := range slow {
		long = append(long, s.c.SendAsync(tb, otherNodes[i%len(otherNodes)], load.Request{Key: key, Header: map[string]string{"App-Delay": runs}}))
	}
	awaitStarted(tb, generator, len(slow)) // they are running by then
	do()
	awaitStarted(tb, generator, after)
	responses := generator.Stop()
	now := s.committed(otherNodes)
	t := faults.Trial{Queued: s.queued(otherNodes) - held, Shards: len(was.Moves(now))}
	for _, resp := range responses {
		if !resp.OK() && !strings.Contains(resp.ID, load.RetryMark) {
			t.Failed++
			printError(tb, "failed", resp)
		}
		t.Slowest = max(t.Slowest, time.Duration(resp.Done()-resp.Sent()))
	}
	for _, request := range long {
		if resp := request.Response(tb); !resp.OK() {
			t.Failed++
			t.Aborted++
			printError(tb, "cut", resp)
		}
	}
	moved := func(key string) bool { return was.OwnerOf(key) != now.OwnerOf(key) }
	times := faults.Unanswered(responses)
	t.MovedKeys = faults.Longest(times, moved)
	t.OtherKeys = faults.Longest(times, func(key string) bool { return !moved(key) })
	return t
}

// printError prints an error response.
func printError(tb testing.TB, what string, resp history.Response) {
	tb.Helper()
	tb.Logf("%s: %s %s of key %q after %v: %d %s %s %+v", what, resp.Method, resp.ID, resp.Key,
		time.Duration(resp.Done()-resp.Sent()).Round(time.Millisecond), resp.Status, resp.Error, resp.Detail, resp.Attempts)
}

// keysFor returns the keys of the load, and the keys of the long requests on other nodes
// than the victim.
func keysFor(shardMap cluster.Map, at scene) (keys, slow []string) {
	all := load.KeysIn(shards, 1, func(int) bool { return true })
	if at.victim == nil {
		return all, nil
	}
	var own, others []string
	for _, key := range all {
		if shardMap.OwnerOf(key) == at.victim.ID {
			own = append(own, key)
		} else {
			others = append(others, key)
		}
	}
	for i := range max(len(own), len(others)) {
		keys = append(keys, own[i%len(own)], others[i%len(others)])
	}
	if at.long {
		slow = others[:running]
	}
	return keys, slow
}

// committed returns the map that these nodes use.
func (s *stage) committed(nodes []*cluster.Node) cluster.Map {
	s.tb.Helper()
	var shardMap cluster.Map
	cluster.Await(s.tb, "a node reports the map", func() (err error) {
		for _, node := range nodes {
			got, e := node.Map(s.tb.Context())
			if err = e; e == nil && got.Epoch > shardMap.Epoch {
				shardMap = got
			}
		}
		if shardMap.Epoch > 0 {
			return nil
		}
		return err
	})
	return shardMap
}

// queued returns the number of queued requests at these nodes so far.
func (s *stage) queued(nodes []*cluster.Node) int {
	s.tb.Helper()
	return int(s.c.Sum(s.tb, nodes, "shardway_queued_requests_total"))
}

// awaitStarted waits until n more requests have started.
func awaitStarted(tb testing.TB, generator *load.Generator, n int) {
	tb.Helper()
	until := generator.Started() + n
	cluster.Await(tb, "load flows", func() error {
		if b := generator.Started(); b < until {
			return fmt.Errorf("%d of %d requests begun", b, until)
		}
		return nil
	})
}
