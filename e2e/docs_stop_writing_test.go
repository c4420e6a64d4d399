//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestExamplesStopWritingWhenTheirNodeDies kills nodes whose apps are the programs of
// the example pages. The apps continue while they process accepted requests that write. They use no
// epochs in this test, so only the rule of the page prevents writes after the next owner has begun. The
// test must detect an app without the rule.
//
//nolint:tparallel // the clusters run one after the other, because the test measures their times
func TestExamplesStopWritingWhenTheirNodeDies(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, x := range examples() {
		text := x.program(t)
		for _, takeover := range []string{"lease", "timeout"} {
			for _, ignoresRule := range []bool{false, true} {
				if x.language != "go" && takeover == "timeout" {
					continue // the programs differ only in other parts
				}
				t.Run(fmt.Sprintf("%s, takeover %s, ignores the rule: %v", x.language, takeover, ignoresRule), func(t *testing.T) {
					program := replaceText(t, text, withoutEpochs[x.language]...)
					if ignoresRule {
						program = replaceText(t, program, withoutRule[x.language]...)
					}
					f := startExample(t, x.command(t, t.TempDir(), program), "--hooks", "/_shards", "--takeover", takeover)
					late := f.killAndFindLateWrites(t)
					if !ignoresRule && len(late) > 0 {
						t.Errorf("after the next owner started: %s", strings.Join(late, ", "))
					}
					if ignoresRule && len(late) == 0 {
						t.Error("an app that continues to write is not detected")
					}
				})
			}
		}
	}
}

// Changes of the programs by language, as pairs of old and new text. withoutEpochs removes the epochs, and
// withoutRule the rule of the page.
var (
	withoutEpochs = map[string][]string{
		"go":     {`if a.newestEpoch(n, ".taken") > s.epoch {`, `if false {`},
		"python": {`    fence(shard, epoch)  # after the commit: the next owner has copied it, or this call fails`, ``},
	}
	withoutRule = map[string][]string{
		"go":     {`!time.Now().Before(a.writeDeadline)`, `false`, `!a.mayWrite()`, `false`},
		"python": {`time.monotonic() >= write_deadline`, `False`, `time.monotonic() >= write_deadline`, `False`},
		"js":     {`performance.now() >= writeDeadline`, `false`, `performance.now() >= writeDeadline`, `false`},
	}
)

func replaceText(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the program has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// killAndFindLateWrites kills a node while requests reach its app directly, like accepted requests,
// until the next owner of their shard has begun and the app has responded for a while. It
// returns the writes after that, and starts the node again.
func (f *exampleCluster) killAndFindLateWrites(t *testing.T) (late []string) {
	t.Helper()
	node := f.Follower(t)
	app := f.apps[node.ID]
	key := f.AwaitServing(t).Keys(node.ID, 1)[0]
	shard, epoch := servedShard(t, node)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := &directLoad{app: app.addr, shard: shard, epoch: epoch, key: key}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { h.run(ctx) })
	}
	cluster.Await(t, "the app writes", func() error { return h.checkResponses(20, time.Time{}, http.StatusOK) })
	node.Kill(t)
	var nextOwnerAt time.Time
	cluster.Await(t, "the next owner has begun", func() error {
		var err error
		nextOwnerAt, err = nextOwnerStart(app.state, shard, epoch)
		return err
	})
	cluster.Await(t, "the app has responded since", func() error { return h.checkResponses(6, nextOwnerAt, 0) })
	stop()
	wg.Wait()
	h.mu.Lock()
	for _, request := range h.requests {
		if request.status == http.StatusOK && request.sentAt.After(nextOwnerAt) {
			late = append(late, "a request succeeded")
			break
		}
	}
	h.mu.Unlock()
	if at := lastWrite(t, app.state, shard, epoch); at.After(nextOwnerAt) {
		late = append(late, fmt.Sprintf("a file was written, %v later", at.Sub(nextOwnerAt)))
	}
	node.Start(t)
	f.AwaitServing(t)
	return late
}

// directLoad sends requests directly to an app, without a node.
type directLoad struct {
	app, key     string
	shard, epoch uint64

	mu       sync.Mutex
	requests []directRequest
}

// directRequest is the result of one request. A zero status means that there was no response.
type directRequest struct {
	sentAt, doneAt time.Time
	status         int
}

func (h *directLoad) run(ctx context.Context) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.app+"/", nil)
		if err != nil {
			return
		}
		req.Header.Set("Shardway-Shard", strconv.FormatUint(h.shard, 10))
		req.Header.Set("Shardway-Epoch", strconv.FormatUint(h.epoch, 10))
		req.Header.Set("Shardway-Key", url.PathEscape(h.key))
		request := directRequest{sentAt: time.Now()}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			request.status = resp.StatusCode
			_ = resp.Body.Close()
		}
		request.doneAt = time.Now()
		h.mu.Lock()
		h.requests = append(h.requests, request)
		h.mu.Unlock()
	}
}

// checkResponses returns nil if at least want requests got a response since a time. The responses must have
// the given status, unless it is 0.
func (h *directLoad) checkResponses(want int, since time.Time, status int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, request := range h.requests {
		if request.doneAt.After(since) && request.status != 0 && (status == 0 || request.status == status) {
			n++
		}
	}
	if n < want {
		return fmt.Errorf("%d responses of %d", n, want)
	}
	return nil
}

// servedShard returns a shard that the app of a node serves, and its epoch.
func servedShard(t *testing.T, node *cluster.Node) (shard, epoch uint64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Admin+"/v1/owned", nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var owned struct {
		MayWriteMS int64 `json:"may_write_ms"`
		Shards     []struct {
			Shard, Epoch uint64
			State        string
		}
	}
	must(t, json.NewDecoder(resp.Body).Decode(&owned))
	if len(owned.Shards) == 0 || owned.MayWriteMS <= 0 {
		t.Fatalf("node %s owns %+v", node.ID, owned)
	}
	return owned.Shards[0].Shard, owned.Shards[0].Epoch
}

// nextOwnerStart returns when an owner with a higher epoch nextOwnerAt, according to its file in the state
// directory.
func nextOwnerStart(state string, shard, epoch uint64) (at time.Time, err error) {
	files, err := os.ReadDir(filepath.Join(state, strconv.FormatUint(shard, 10)))
	if err != nil {
		return at, err
	}
	for _, f := range files {
		name, isTaken := strings.CutSuffix(f.Name(), ".taken")
		if e, err := strconv.ParseUint(name, 10, 64); !isTaken || err != nil || e <= epoch {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return at, err
		}
		return info.ModTime(), nil
	}
	return at, fmt.Errorf("no owner of shard %d after epoch %d", shard, epoch)
}

// lastWrite returns the time of the last write under an epoch.
func lastWrite(t *testing.T, state string, shard, epoch uint64) (at time.Time) {
	t.Helper()
	dir := filepath.Join(state, strconv.FormatUint(shard, 10))
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		mine := strings.HasPrefix(rel, fmt.Sprint(epoch, "/")) || rel == fmt.Sprint(epoch, ".json")
		if err != nil || d.IsDir() || !mine || strings.HasSuffix(rel, "-journal") {
			return nil //nolint:nilerr // a file that has just gone
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
		return nil
	}))
	return at
}
