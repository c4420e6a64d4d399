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
	// longRequests is the number of requests of scene.long, and longDuration the duration of each:
	// longer than dead-after.
	longRequests = 4
	longDuration = "2800ms"
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

// measure sends requests while injectFault runs, and waits until the cluster serves again.
func (s *stage) measure(at scene, injectFault func()) faults.Trial {
	tb := s.tb
	tb.Helper()
	otherNodes := s.c.Others(at.victim)
	mapBefore, queuedBefore := s.committed(otherNodes), s.queued(otherNodes)
	keys, longKeys := keysFor(mapBefore, at)
	client := load.NewClient(cluster.Addrs(at.to), nil)
	defer client.Close()
	s.loads++
	generator := load.Start(context.WithoutCancel(tb.Context()), load.Options{
		Client: client, Rate: rate, Keys: keys, Prefix: fmt.Sprintf("f%d", s.loads), Timeout: 30 * time.Second,
		RetryFailed: true,
	})
	defer generator.Stop()
	awaitStarted(tb, generator, before)
	long := s.sendLong(otherNodes, longKeys)
	awaitStarted(tb, generator, len(long)) // The long requests run by then.
	injectFault()
	awaitStarted(tb, generator, after)
	responses := generator.Stop()
	mapAfter := s.committed(otherNodes)
	trial := faults.Trial{Queued: s.queued(otherNodes) - queuedBefore, Shards: len(mapBefore.Moves(mapAfter))}
	addResponses(tb, &trial, responses)
	addLongRequests(tb, &trial, long)
	isMoved := func(key string) bool { return mapBefore.OwnerOf(key) != mapAfter.OwnerOf(key) }
	unanswered := faults.Unanswered(responses)
	trial.MovedKeys = faults.Longest(unanswered, isMoved)
	trial.OtherKeys = faults.Longest(unanswered, func(key string) bool { return !isMoved(key) })
	return trial
}

// sendLong sends one long request for each key, to the nodes in turn.
func (s *stage) sendLong(nodes []*cluster.Node, keys []string) []*cluster.AsyncRequest {
	s.tb.Helper()
	var long []*cluster.AsyncRequest
	for i, key := range keys {
		long = append(long, s.c.SendAsync(s.tb, nodes[i%len(nodes)], load.Request{Key: key, Header: map[string]string{"App-Delay": longDuration}}))
	}
	return long
}

// addResponses adds the failed and the slowest requests of the load to a trial.
func addResponses(tb testing.TB, trial *faults.Trial, responses []history.Response) {
	tb.Helper()
	for _, resp := range responses {
		isRetry := strings.Contains(resp.ID, load.RetryMark)
		if !resp.OK() && !isRetry {
			trial.Failed++
			printError(tb, "failed", resp)
		}
		trial.Slowest = max(trial.Slowest, time.Duration(resp.DoneAt()-resp.SentAt()))
	}
}

// addLongRequests adds the long requests that failed to a trial. The fault of another node aborted them.
func addLongRequests(tb testing.TB, trial *faults.Trial, long []*cluster.AsyncRequest) {
	tb.Helper()
	for _, request := range long {
		if resp := request.Response(tb); !resp.OK() {
			trial.Failed++
			trial.Aborted++
			printError(tb, "aborted", resp)
		}
	}
}

// printError prints an error response. result is what happened to the request.
func printError(tb testing.TB, result string, resp history.Response) {
	tb.Helper()
	tb.Logf("%s: %s %s of key %q after %v: %d %s %s %+v", result, resp.Method, resp.ID, resp.Key,
		time.Duration(resp.DoneAt()-resp.SentAt()).Round(time.Millisecond), resp.Status, resp.Error, resp.Detail, resp.Attempts)
}

// keysFor returns the keys of the load, and the keys of the long requests on other nodes
// than the victim.
func keysFor(shardMap cluster.Map, at scene) (keys, longKeys []string) {
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
		longKeys = others[:longRequests]
	}
	return keys, longKeys
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
	wanted := generator.Started() + n
	cluster.Await(tb, "requests start", func() error {
		if started := generator.Started(); started < wanted {
			return fmt.Errorf("%d of %d requests started", started, wanted)
		}
		return nil
	})
}
