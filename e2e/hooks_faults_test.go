//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// ownedShards returns the shards that the app of a node has acquired.
func ownedShards(ctx context.Context, node *cluster.Node) (list api.OwnedList, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.Admin+"/v1/owned", nil)
	if err != nil {
		return list, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return list, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return list, errors.New(resp.Status)
	}
	return list, json.NewDecoder(resp.Body).Decode(&list)
}

// TestFailingHooksBlockOnlyTheirShard moves single shards to an app whose acquire fails
// in some way, and away from an app whose release fails. Requests of the shard wait, and
// continue with the correct count. All other shards are served without delay.
func TestFailingHooksBlockOnlyTheirShard(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--release-timeout", "1s")
	shardMap := c.AwaitServing(t)
	from, to := c.Node("a"), c.Node("b")
	var moving []int
	var others []string
	for shard := range shards {
		if shardMap.Owner(shard) == from.ID && len(moving) < 16 {
			moving = append(moving, shard)
			continue
		}
		others = append(others, load.KeysIn(shards, 1, func(s int) bool { return s == shard })...)
	}
	counts := map[string]uint64{}
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 100, Keys: others, ModifyRequest: func(int, *load.Request) {}})
	for i, kind := range []string{"slow:300ms", "500", "huge", "garbage", "gone", "hang", "twice", "unable"} {
		faulty := hookFault{c: c, from: from, to: to, kind: kind, counts: counts}
		faulty.checkAcquire(t, moving[2*i])
		traffic.AwaitStarted(t, 20)
		faulty.checkRelease(t, moving[2*i+1])
		traffic.AwaitStarted(t, 20)
	}
	traffic.Finish(t)
	wantExactCounts(t, counts, traffic.Responses())
}

// hookFault is a fault of the hooks of two apps, between which shards move.
type hookFault struct {
	c        *cluster.Cluster
	from, to *cluster.Node
	kind     string            // see e2e/kit/testapp/hooks.go
	counts   map[string]uint64 // expected counters by key
}

// move pins a shard to the node to, and sends a POST for a key of the shard. It returns the key and the
// request, which may be queued.
func (b hookFault) move(t *testing.T, shard int) (key string, pending *cluster.AsyncRequest) {
	t.Helper()
	key = load.KeysIn(shards, 1, func(s int) bool { return s == shard })[0]
	postAndCount(t, b.c, b.from, b.counts, 2, key)
	if out, code := shardway(t, "pin", strconv.Itoa(shard), b.to.ID, "--admin", b.to.Admin); code != 0 {
		t.Fatalf("pin %d: exit %d, %s", shard, code, out)
	}
	cluster.Await(t, fmt.Sprintf("shard %d is at %s", shard, b.to.ID), func() error {
		shardMap, err := b.to.Map(t.Context())
		if err == nil && shardMap.Owner(shard) != b.to.ID {
			err = fmt.Errorf("it is at %s", shardMap.Owner(shard))
		}
		return err
	})
	b.counts[key]++
	return key, b.c.SendAsync(t, b.from, load.Request{Key: key, Method: "POST"})
}

// wantCounted waits for the response to a queued request, and checks its count.
func (b hookFault) wantCounted(t *testing.T, hook, key string, pending *cluster.AsyncRequest) {
	t.Helper()
	if resp := pending.Response(t); !resp.OK() || resp.Count != b.counts[key] {
		t.Errorf("%s %s: status %d (%s), count %d, want %d", hook, b.kind, resp.Status, resp.Detail, resp.Count, b.counts[key])
	}
}

// checkAcquire moves a shard to an app with an acquire fault.
func (b hookFault) checkAcquire(t *testing.T, shard int) {
	t.Helper()
	b.to.App.SetHookFault(t, "acquire", b.kind)
	key, pending := b.move(t, shard)
	if b.kind != "slow:300ms" && b.kind != "twice" { // these faults end on their own
		wantError := map[string]string{"500": "status 500: no way [2J", "huge": "longer than", "garbage": "malformed", "gone": "EOF", "hang": "", "unable": "told to fail"}[b.kind]
		cluster.Await(t, "the shard is not acquired, and the error is reported", func() error {
			list, err := ownedShards(t.Context(), b.to)
			if err != nil {
				return err
			}
			for _, s := range list.Shards {
				switch {
				case int(s.Shard) != shard && s.State != api.OwnedServing:
					t.Errorf("acquire %s: shard %d is also %s", b.kind, s.Shard, s.State)
				case int(s.Shard) == shard && s.State == api.OwnedAcquiring && strings.Contains(s.Error, wantError):
					return nil
				}
			}
			return fmt.Errorf("%+v", list)
		})
		if !pending.Pending() {
			t.Errorf("acquire %s: response although its shard is not acquired: %+v", b.kind, pending.Response(t))
		}
	}
	b.to.App.SetHookFault(t, "acquire", "none")
	b.wantCounted(t, "acquire", key, pending)
}

// checkRelease moves a shard away from an app with a release fault.
func (b hookFault) checkRelease(t *testing.T, shard int) {
	t.Helper()
	b.from.App.SetHookFault(t, "release", b.kind)
	key, pending := b.move(t, shard)
	b.wantCounted(t, "release", key, pending)
	b.from.App.SetHookFault(t, "release", "none")
}

// TestThreeOf256ShardsFailToAcquire makes an app fail three of 256 shards in one acquire
// call, as long as its fault lasts. The other shards are served, and the status names the
// three shards with the reason.
func TestThreeOf256ShardsFailToAcquire(t *testing.T) {
	t.Parallel() // it waits most of the time
	const all = 256
	failing := []int{5, 130, 255}
	dir := t.TempDir()
	c := cluster.New(t, cluster.Options{
		Binaries: binaries(t), Shards: all, AppFlags: []string{"--state", dir}, Flags: []string{"--hooks", "/_state", "--queue-wait", "11s"},
	})
	node := c.Prepare(t, "--bootstrap-expect", "1")
	node.App.SetHookFault(t, "acquire", "failed:5,130,255")
	node.Start(t)
	await := func(serving int) (list api.OwnedList) {
		t.Helper()
		cluster.Await(t, fmt.Sprintf("%d shards are served", serving), func() (err error) {
			if list, err = ownedShards(t.Context(), node); err != nil {
				return err
			}
			got := 0
			for _, s := range list.Shards {
				if s.State == api.OwnedServing {
					got++
				}
			}
			if got != serving {
				err = fmt.Errorf("%d are", got)
			}
			return err
		})
		return list
	}
	for _, s := range await(all - len(failing)).Shards {
		if slices.Contains(failing, int(s.Shard)) != (s.Error == "told to fail") {
			t.Errorf("%+v", s)
		}
	}
	keyOf := func(shard int) string {
		return load.KeysIn(all, 1, func(s int) bool { return s == shard })[0]
	}
	counts := map[string]uint64{}
	for _, shard := range []int{0, 4, 6, 129, 254} {
		postAndCount(t, c, node, counts, 2, keyOf(shard))
	}
	resp := c.SendRequest(t, node, load.Request{Key: keyOf(130), Method: "POST"})
	if resp.Status != http.StatusServiceUnavailable || resp.Error != "queue-timeout" || !strings.Contains(resp.Detail, "shard 130 in time: told to fail") {
		t.Errorf("a queued request of shard 130 gets %d %s: %s", resp.Status, resp.Error, resp.Detail)
	}
	diagnosisTest{t, c}.wantFinding(node, diagnosis.Acquiring, "the app of node a does not acquire 3 shards: 5, 130, 255, whose requests wait: told to fail")
	if lines := strings.Count(node.Process().Output(1_000_000), `"acquire hook failed`); lines != 1 {
		t.Errorf("the log contains the failure %d times, want once", lines)
	}
	node.App.SetHookFault(t, "acquire", "none")
	await(all)
	for _, shard := range failing {
		postAndCount(t, c, node, counts, 1, keyOf(shard))
	}
}
