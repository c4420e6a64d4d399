//go:build linux

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// TestGunicornWorkersOwnTheirShards runs four workers behind each node. Each worker is a gunicorn of its own, with a
// WSGI app that keeps its state in memory. It kills, stops and drains workers and nodes under load.
func TestGunicornWorkersOwnTheirShards(t *testing.T) {
	t.Parallel() // it waits most of the time
	gunicorn := findProgram(t, "gunicorn")
	app, err := filepath.Abs("testdata/gunicorn")
	must(t, err)
	w := &workers{stopped: map[string][]period{}, killedAt: map[string][]int64{}}
	w.world = startWorldOf(t, 4, func(name string, port int, _ string) (args, env []string) {
		return []string{
			gunicorn, "--workers=1", "--threads=4", "--keep-alive=75", fmt.Sprint("--bind=127.0.0.1:", port), "--pythonpath=" + app,
			"--access-logfile=access.log", "--access-logformat=%({shardway-key}i)s %({shardway-epoch}i)s %(m)s", "app:app",
		}, []string{"WORKER=" + name, "PYTHONDONTWRITEBYTECODE=1"}
	}, "--key=header:X-User", "--health=/health", "--health-interval=200ms", "--health-timeout=500ms", "--drain-timeout=1s", "--queue-wait=20s")
	w.awaitPlaces(t, "all workers own shards", func(places []cluster.Place) bool {
		owners := map[cluster.Place]bool{}
		for _, place := range places {
			owners[place] = true
		}
		return len(owners) == 12
	})
	users := w.startUsers(t, 12)
	nodes := w.Nodes()
	users.await(t)

	// A worker that dies, or hangs, loses its shards to its siblings. No other shard moves.
	killed, hung := w.placeOf(t, users.keys[0]), w.placeOf(t, users.keys[1])
	for hung == killed {
		hung.Instance = hung.Instance%4 + 1
	}
	for _, fault := range []struct {
		victim         cluster.Place
		begin, restore func(x *instance)
	}{
		{killed, func(x *instance) { w.killWorker(x) }, func(x *instance) { x.start(t); x.awaitPort(t) }},
		{hung, func(x *instance) { w.stopWorker(t, x) }, func(x *instance) { w.continueWorker(t, x) }},
	} {
		users.mayFail.Store(true)
		before := w.currentPlaces(t)
		t.Logf("worker %s fails", name(fault.victim))
		fault.begin(w.instances[name(fault.victim)])
		after := w.awaitOwns(t, fault.victim, false)
		for shard, place := range before {
			switch {
			case place != fault.victim && after[shard] != place:
				t.Errorf("%s has failed, and shard %d has moved from %s to %s", name(fault.victim), shard, name(place), name(after[shard]))
			case place == fault.victim && after[shard].Node != place.Node:
				t.Errorf("shard %d of %s is at %s now, not at a sibling", shard, name(place), name(after[shard]))
			}
		}
		users.await(t)
		users.mayFail.Store(false)
		fault.restore(w.instances[name(fault.victim)])
		w.awaitOwns(t, fault.victim, true)
		users.await(t)
	}

	// An operator restarts a worker without a failed request.
	restarted := w.placeOf(t, users.keys[2])
	worker := w.instances[name(restarted)]
	t.Logf("worker %s is restarted", worker.name)
	nodes[0].PerformAction(t, "drain", url.Values{"node": {name(restarted)}})
	w.awaitOwns(t, restarted, false)
	users.await(t)
	worker.terminate(t)
	worker.start(t)
	worker.awaitPort(t)
	nodes[0].PerformAction(t, "uncordon", url.Values{"node": {name(restarted)}})
	w.awaitOwns(t, restarted, true)

	// Drain of a node, and restart of another one: no request fails, and no state is lost in a restart in place.
	t.Log("a node is drained")
	w.drain(t, nodes[1])
	users.await(t)
	w.uncordon(t, nodes[1])
	users.sendThrough(t, w.Others(nodes[0]))
	t.Log("a node restarts in place")
	nodes[0].Terminate(t)
	nodes[0].AwaitExit(t, 0)
	nodes[0].Start(t)
	w.AwaitServing(t)
	users.sendThrough(t, nodes)

	users.sendThrough(t, w.Others(nodes[2]))
	users.mayFail.Store(true)
	t.Log("a node is killed")
	w.killNode(t, nodes[2])
	users.await(t)
	t.Log("all steps are done")
	users.stop()
	w.check(t)
	w.checkOwners(t, 200)
}

// name returns the name of an instance.
func name(place cluster.Place) string { return fmt.Sprint(place.Node, "/", place.Instance) }

// period is the time between two values of history.Now.
type period struct{ from, until int64 }

// workers is a world with several workers behind each node.
type workers struct {
	*world
	stopped  map[string][]period // by name of the worker
	killedAt map[string][]int64
}

// killWorker ends a worker with kill -9. It records the time before, so no later run can have overlapped it.
func (w *workers) killWorker(x *instance) {
	w.killedAt[x.name] = append(w.killedAt[x.name], history.Now())
	x.kill()
}

// stopWorker stops all threads of a worker.
func (w *workers) stopWorker(t *testing.T, x *instance) {
	t.Helper()
	w.stopped[x.name] = append(w.stopped[x.name], period{from: history.Now()})
	must(t, syscall.Kill(-x.process.Process.Pid, syscall.SIGSTOP))
}

// continueWorker continues a worker. It finishes the requests that it had received before.
func (w *workers) continueWorker(t *testing.T, x *instance) {
	t.Helper()
	must(t, syscall.Kill(-x.process.Process.Pid, syscall.SIGCONT))
	w.stopped[x.name][len(w.stopped[x.name])-1].until = history.Now()
}

// terminate ends the instance with SIGTERM.
func (x *instance) terminate(t *testing.T) {
	t.Helper()
	must(t, x.process.Process.Signal(syscall.SIGTERM))
	<-x.ended
}

// currentPlaces returns the owner of each shard.
func (w *workers) currentPlaces(t *testing.T) []cluster.Place {
	t.Helper()
	return w.awaitPlaces(t, "no shard moves", func([]cluster.Place) bool { return true })
}

// placeOf returns the worker that owns a key.
func (w *workers) placeOf(t *testing.T, key string) cluster.Place {
	t.Helper()
	current, err := w.Running()[0].Map(t.Context())
	must(t, err)
	return w.currentPlaces(t)[current.ShardOf(key)]
}

// awaitOwns waits until a worker owns shards, or none.
func (w *workers) awaitOwns(t *testing.T, place cluster.Place, owns bool) []cluster.Place {
	t.Helper()
	return w.awaitPlaces(t, fmt.Sprintf("worker %s owns shards: %v", name(place), owns), func(places []cluster.Place) bool {
		return slices.Contains(places, place) == owns
	})
}

// awaitPlaces waits until no shard moves and done returns true.
func (w *workers) awaitPlaces(t *testing.T, what string, done func([]cluster.Place) bool) (places []cluster.Place) {
	t.Helper()
	cluster.Await(t, what, func() error {
		var moving bool
		var err error
		places, moving, err = w.Running()[0].Places(t.Context())
		if err == nil && (moving || !done(places)) {
			err = fmt.Errorf("shards move: %v, owners %v", moving, places)
		}
		return err
	})
	return places
}

// run is one execution of a request in a worker.
type run struct {
	worker, id, user string
	begin, end       int64 // end is 0 if the worker did not finish the request
}

// runs reads the journal of a worker.
func (w *workers) runs(t *testing.T, x *instance) (all []run) {
	t.Helper()
	journal, err := os.ReadFile(filepath.Join(x.dir, "journal"))
	must(t, err)
	index := map[string]int{}
	for line := range strings.Lines(string(journal)) {
		fields := strings.Fields(line)
		at, err := strconv.ParseInt(fields[3], 10, 64)
		must(t, err)
		if fields[0] == "end" {
			all[index[fields[1]]].end = at
			continue
		}
		index[fields[1]] = len(all)
		all = append(all, run{worker: x.name, id: fields[1], user: fields[2], begin: at})
	}
	for i := range all {
		for _, at := range w.killedAt[x.name] {
			if all[i].end == 0 && at >= all[i].begin {
				all[i].end = at
			}
		}
	}
	return all
}

// wasStopped reports whether a worker had certainly or possibly received the request before it was continued. It reads
// requests from its connections then, although the node has closed them.
func (w *workers) wasStopped(r run) bool {
	return slices.ContainsFunc(w.stopped[r.worker], func(p period) bool {
		return r.begin < p.until+int64(500*time.Millisecond) && (r.end == 0 || r.end > p.from)
	})
}

// check checks the journals of all workers: no request ran twice, and no user was at two workers at the same time.
// The run of a worker that was stopped may end later: only the ownership epoch fences it.
func (w *workers) check(t *testing.T) {
	t.Helper()
	ids, byUser, inStopped := map[string]string{}, map[string][]run{}, 0
	for _, x := range w.instances {
		for _, r := range w.runs(t, x) {
			if other := ids[r.id]; other != "" {
				t.Errorf("request %s ran at %s and at %s", r.id, other, r.worker)
			}
			ids[r.id] = r.worker
			byUser[r.user] = append(byUser[r.user], r)
		}
	}
	for user, runs := range byUser {
		slices.SortFunc(runs, func(a, b run) int { return int(a.begin - b.begin) })
		for i, earlier := range runs {
			for _, later := range runs[i+1:] {
				overlaps := earlier.end == 0 || earlier.end > later.begin
				switch {
				case !overlaps || earlier.worker == later.worker:
				case w.wasStopped(earlier) || w.wasStopped(later):
					inStopped++
				default:
					t.Errorf("user %s: %+v overlaps %+v", user, earlier, later)
				}
			}
		}
	}
	t.Logf("%d requests, %d overlaps with a stopped worker", len(ids), inStopped)
}

// userLoad sends requests of several users at the same time.
type userLoad struct {
	keys    []string
	addrs   atomic.Pointer[[]string]
	mayFail atomic.Bool
	done    []atomic.Int64 // number of finished requests by user
	cancel  context.CancelFunc
	pending sync.WaitGroup
}

// startUsers starts n users. Each user sends one request after the other.
func (w *workers) startUsers(t *testing.T, n int) *userLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	load := &userLoad{done: make([]atomic.Int64, n), cancel: cancel}
	addrs := cluster.Addrs(w.Running())
	load.addrs.Store(&addrs)
	for i := range n {
		load.keys = append(load.keys, fmt.Sprint("user-", i))
		load.pending.Go(func() { load.sendAll(ctx, t, i) })
	}
	t.Cleanup(load.stop)
	return load
}

// sendAll sends the requests of a user. The counter of the user continues as long as the user stays at a worker.
func (l *userLoad) sendAll(ctx context.Context, t *testing.T, user int) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var last visit
	failed := 0 // failed requests since the last response, which may have run
	for n := 0; ctx.Err() == nil; n++ {
		addrs, couldFail := *l.addrs.Load(), l.mayFail.Load()
		seen, err := postAs(context.WithoutCancel(ctx), client, "http://"+addrs[(user+n)%len(addrs)], l.keys[user], fmt.Sprint(user, ".", n), []string{"0.01", "0.01", "0.15"}[n%3])
		if err != nil {
			if !couldFail && !l.mayFail.Load() {
				t.Errorf("%s: %v", l.keys[user], err)
			}
			failed++
			continue
		}
		stays := seen.Instance == last.Instance
		if stays && (seen.Count <= last.Count || seen.Count > last.Count+1+failed) && seen.Count > 1+failed {
			t.Errorf("%s: %+v after %+v and %d failures", l.keys[user], seen, last, failed)
		}
		last, failed = seen, 0
		l.done[user].Add(1)
	}
}

// postAs sends one request of a user.
func postAs(ctx context.Context, client *http.Client, url, user, id, sleep string) (visit, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return visit{}, err
	}
	req.Header.Set("X-User", user)
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("X-Sleep", sleep)
	return sendVisit(client, req)
}

// sendThrough makes all users send their next requests through these nodes.
func (l *userLoad) sendThrough(t *testing.T, nodes []*cluster.Node) {
	t.Helper()
	addrs := cluster.Addrs(nodes)
	l.addrs.Store(&addrs)
	l.await(t)
}

// await waits until each user has received three further responses.
func (l *userLoad) await(t *testing.T) {
	t.Helper()
	var wanted []int64
	for i := range l.done {
		wanted = append(wanted, l.done[i].Load()+3)
	}
	cluster.Await(t, "each user receives responses", func() error {
		for i := range l.done {
			if l.done[i].Load() < wanted[i] {
				return errors.New(l.keys[i] + " waits")
			}
		}
		return nil
	})
}

// stop waits for the last response of each user.
func (l *userLoad) stop() {
	l.cancel()
	l.pending.Wait()
}
