//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// instancesTest is a cluster of three nodes with three app instances each.
type instancesTest struct {
	*testing.T
	*cluster.Cluster
	// hung contains, by app, the times at which it was stopped.
	hung map[string][][2]int64
}

// startInstances starts the cluster.
func startInstances(t *testing.T) *instancesTest {
	t.Helper()
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Flags: []string{
		"--health", "/health", "--health-interval", "200ms", "--health-timeout", "400ms", "--drain-timeout", "1s", "--queue-wait", "20s",
	}})
	for range 3 {
		node := c.Prepare(t, "--bootstrap-expect", "3")
		node.AddInstance(t)
		node.AddInstance(t)
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	test := &instancesTest{T: t, Cluster: c, hung: map[string][][2]int64{}}
	test.awaitPlaces("all instances own shards", func(places []cluster.Place) bool {
		owners := map[cluster.Place]bool{}
		for _, place := range places {
			owners[place] = true
		}
		return len(owners) == 9
	})
	return test
}

// awaitPlaces waits until no shard moves and done returns true.
func (x *instancesTest) awaitPlaces(what string, done func([]cluster.Place) bool) []cluster.Place {
	x.Helper()
	var result []cluster.Place
	cluster.Await(x.T, what, func() error {
		places, moving, err := x.Running()[0].Places(x.Context())
		switch {
		case err != nil:
			return err
		case moving:
			return errors.New("shards move")
		case !done(places):
			return fmt.Errorf("owners %v", places)
		}
		result = places
		return nil
	})
	return result
}

// failInstance kills or stops an instance, and checks that only its shards move, to its siblings. It
// returns the function that brings the instance back.
func (x *instancesTest) failInstance(node *cluster.Node, instance int, hang bool) (restore func()) {
	x.Helper()
	app, place := node.Instances[instance], cluster.Place{Node: node.ID, Instance: instance + 1}
	before := x.awaitPlaces("the instance owns shards", func(places []cluster.Place) bool { return slices.Contains(places, place) })
	from := history.Now()
	if hang {
		app.Signal(x.T, syscall.SIGSTOP)
	} else {
		app.Kill(x.T)
	}
	after := x.awaitPlaces("the shards of the instance have moved", func(places []cluster.Place) bool { return !slices.Contains(places, place) })
	for shard := range before {
		switch {
		case before[shard] != place && after[shard] != before[shard]:
			x.Errorf("shard %d moved from %v to %v, and %v has failed", shard, before[shard], after[shard], place)
		case before[shard] == place && after[shard].Node != node.ID:
			x.Errorf("shard %d of %v went to another node: %v", shard, place, after[shard])
		}
	}
	return func() {
		if hang {
			app.Signal(x.T, syscall.SIGCONT)
			x.hung[app.Name()] = append(x.hung[app.Name()], [2]int64{from, history.Now()})
		} else {
			app.Start(x.T)
		}
		x.awaitPlaces("the instance has shards again", func(places []cluster.Place) bool { return slices.Contains(places, place) })
	}
}

// check checks all runs: one owner per shard and epoch, no overlap of two owners except for requests in
// a hung instance, and no POST that ran twice.
func (x *instancesTest) check() {
	x.Helper()
	sentAt := map[string]int64{}
	for _, response := range x.Responses() {
		sentAt[response.ID] = response.SentAt()
	}
	byShard, count := map[uint32][]history.Run{}, map[string]int{}
	for _, node := range x.Nodes() {
		for _, app := range node.Instances {
			for _, run := range app.Runs(x.T) {
				byShard[run.Shard] = append(byShard[run.Shard], run)
				if run.Method == http.MethodPost {
					count[run.ID]++
				}
			}
		}
	}
	for id, n := range count {
		if n > 1 {
			x.Errorf("POST %s ran %d times", id, n)
		}
	}
	excused, total := 0, 0
	for shard, runs := range byShard {
		total += len(runs)
		owners := map[uint64]string{}
		for _, run := range runs {
			if owner := owners[run.Epoch]; owner != "" && owner != run.App {
				x.Errorf("shard %d ran under epoch %d at %s and at %s", shard, run.Epoch, owner, run.App)
			}
			owners[run.Epoch] = run.App
		}
		slices.SortFunc(runs, func(a, b history.Run) int { return int(a.Start - b.Start) })
		for i, run := range runs {
			for _, later := range runs[i+1:] {
				overlaps := run.End == 0 || run.End > later.Start
				if later.Epoch == run.Epoch || !overlaps {
					continue
				}
				if later.Epoch > run.Epoch && (x.isHung(run) || run.Aborted && run.End-later.Start < int64(250*time.Millisecond)) {
					excused++
					continue
				}
				if later.Epoch < run.Epoch && x.wasUnread(later, sentAt[later.ID]) {
					excused++
					continue
				}
				x.Errorf("shard %d: %s runs %s of epoch %d until %d, and %s began %s of epoch %d at %d", shard, run.App, run.ID, run.Epoch, run.End, later.App, later.ID, later.Epoch, later.Start)
			}
		}
	}
	failed := map[string]int{}
	for _, response := range x.Responses() {
		if !response.OK() {
			failed[response.Method+" "+strconv.Itoa(response.Status)+" "+response.Error]++
		}
	}
	x.Logf("%d runs, %d overlaps with requests in hung instances, failed responses %v of %d", total, excused, failed, len(x.Responses()))
}

// isHung reports whether the instance was stopped during the run.
func (x *instancesTest) isHung(run history.Run) bool {
	return slices.ContainsFunc(x.hung[run.App], func(period [2]int64) bool {
		return run.Start < period[1] && (run.End == 0 || run.End > period[0])
	})
}

// wasUnread reports whether the request of a run may have waited unread in a connection of a stopped instance. The
// kernel keeps the bytes of a connection that the node has closed, so the instance runs the request when it continues.
func (x *instancesTest) wasUnread(run history.Run, sentAt int64) bool {
	return sentAt != 0 && slices.ContainsFunc(x.hung[run.App], func(period [2]int64) bool {
		return sentAt < period[1] && run.Start > period[0]
	})
}

// TestInstancesThatFailLoseTheirShardsToTheirSiblings kills and stops app instances of three nodes under
// load. No request runs at two instances, and only the shards of the failed instance move.
func TestInstancesThatFailLoseTheirShardsToTheirSiblings(t *testing.T) {
	t.Parallel()
	x := startInstances(t)
	load := x.Load(t, x.Nodes(), cluster.Traffic{Rate: 150})
	load.AwaitStarted(t, 150)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 6 {
		node := x.Nodes()[random.IntN(3)]
		restore := x.failInstance(node, random.IntN(3), round%2 == 1)
		load.AwaitStarted(t, 100)
		restore()
	}
	load.EndLoad(t)
	x.check()
}
