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

// TestExamplesStopWritingWhenTheirNodeDies kills nodes whose apps, programs of
// the example pages, survive while they process accepted requests that write. The
// apps use no epochs in this test: only the rule of the page keeps them from writing
// after the next owner has begun. The test detects an app without the rule.
//
//nolint:tparallel // the clusters run one after the other, because their times are judged
func TestExamplesStopWritingWhenTheirNodeDies(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, x := range examples() {
		text := x.program(t)
		for _, takeover := range []string{"lease", "timeout"} {
			for _, ignores := range []bool{false, true} {
				if x.language != "go" && takeover == "timeout" {
					continue // the programs differ only in other parts
				}
				t.Run(fmt.Sprintf("%s, takeover %s, ignores it %v", x.language, takeover, ignores), func(t *testing.T) {
					program := replaceText(t, text, unfenced[x.language]...)
					if ignores {
						program = replaceText(t, program, unruly[x.language]...)
					}
					f := startExample(t, x.command(t, t.TempDir(), program), "--hooks", "/_shards", "--takeover", takeover)
					late := f.killAndFindLateWrites(t)
					if !ignores && len(late) > 0 {
						t.Errorf("after the next owner began: %s", strings.Join(late, ", "))
					}
					if ignores && len(late) == 0 {
						t.Error("an app that continues to write is not detected")
					}
				})
			}
		}
	}
}

// unfenced removes the epochs from the programs, unruly removes the rule: pairs of old
// and new text.
var (
	unfenced = map[string][]string{
		"go":     {`if a.newest(n, ".taken") > s.epoch {`, `if false {`},
		"python": {`    fence(shard, epoch)  # after the commit: see take`, ``},
	}
	unruly = map[string][]string{
		"go":     {`!time.Now().Before(a.until)`, `false`, `!a.mayWrite()`, `false`},
		"python": {`time.monotonic() >= until`, `False`, `time.monotonic() >= until`, `False`},
		"js":     {`performance.now() >= until`, `false`, `performance.now() >= until`, `false`},
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
	n := f.Follower(t)
	app := f.apps[n.ID]
	key := f.AwaitServing(t).Keys(n.ID, 1)[0]
	shard, epoch := servedShard(t, n)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := &hammer{app: app.addr, shard: shard, epoch: epoch, key: key}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { h.run(ctx) })
	}
	cluster.Await(t, "the app writes", func() error { return h.answers(20, time.Time{}, http.StatusOK) })
	n.Kill(t)
	var began time.Time
	cluster.Await(t, "the next owner has begun", func() error {
		var err error
		began, err = beganAfter(app.state, shard, epoch)
		return err
	})
	cluster.Await(t, "the app has answered since", func() error { return h.answers(6, began, 0) })
	stop()
	wg.Wait()
	h.mu.Lock()
	for _, x := range h.all {
		if x.status == http.StatusOK && x.sent.After(began) {
			late = append(late, "a request was answered")
			break
		}
	}
	h.mu.Unlock()
	if at := lastWrite(t, app.state, shard, epoch); at.After(began) {
		late = append(late, fmt.Sprintf("a file was written, %v later", at.Sub(began)))
	}
	n.Start(t)
	f.AwaitServing(t)
	return late
}

// hammer sends requests to an app without a node.
type hammer struct {
	app, key     string
	shard, epoch uint64

	mu  sync.Mutex
	all []hammered
}

type hammered struct {
	sent, answered time.Time
	status         int
}

func (h *hammer) run(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.app+"/", nil)
		if err != nil {
			return
		}
		r.Header.Set("Shardway-Shard", strconv.FormatUint(h.shard, 10))
		r.Header.Set("Shardway-Epoch", strconv.FormatUint(h.epoch, 10))
		r.Header.Set("Shardway-Key", url.PathEscape(h.key))
		x := hammered{sent: time.Now()}
		if res, err := http.DefaultClient.Do(r); err == nil {
			x.status = res.StatusCode
			_ = res.Body.Close()
		}
		x.answered = time.Now()
		h.mu.Lock()
		h.all = append(h.all, x)
		h.mu.Unlock()
	}
}

// answers returns nil if this number of requests got a response since then, with this
// status unless it is 0.
func (h *hammer) answers(want int, since time.Time, status int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, x := range h.all {
		if x.answered.After(since) && x.status != 0 && (status == 0 || x.status == status) {
			n++
		}
	}
	if n < want {
		return fmt.Errorf("%d answers of %d", n, want)
	}
	return nil
}

// servedShard returns a shard that the app of a node serves, and its epoch.
func servedShard(t *testing.T, n *cluster.Node) (shard, epoch uint64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.Admin+"/v1/owned", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	var owned struct {
		MayWriteMS int64 `json:"may_write_ms"`
		Shards     []struct {
			Shard, Epoch uint64
			State        string
		}
	}
	must(t, json.NewDecoder(res.Body).Decode(&owned))
	if len(owned.Shards) == 0 || owned.MayWriteMS <= 0 {
		t.Fatalf("node %s owns %+v", n.ID, owned)
	}
	return owned.Shards[0].Shard, owned.Shards[0].Epoch
}

// beganAfter returns when an owner with a higher epoch has begun.
func beganAfter(state string, shard, epoch uint64) (at time.Time, err error) {
	files, err := os.ReadDir(filepath.Join(state, strconv.FormatUint(shard, 10)))
	if err != nil {
		return at, err
	}
	for _, f := range files {
		name, taken := strings.CutSuffix(f.Name(), ".taken")
		if e, err := strconv.ParseUint(name, 10, 64); !taken || err != nil || e <= epoch {
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
