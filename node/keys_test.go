package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/node"
)

// A node that cannot read the active key configuration, possibly written by another version of the program, queues all requests and reports
// that.
func TestUnreadableKeysAreReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Keys = `{"key":["future:x"],"on_missing_key":"reject"}` }
		w.start("a")
		w.untilFindingsAre(w.all["a"], "keys-unreadable: node a cannot read the active key configuration, so its requests wait: ", "future:x")
	})
}

// A key configuration becomes active on all nodes together, once every node, gateways included, has loaded it.
func TestKeysBecomeActiveWhenAllHaveLoadedThem(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		const before, after = `{"key":["header:x-shard-key"],"on_missing_key":"reject"}`, `{"key":["query:t","header:x-shard-key"],"on_missing_key":"reject"}`
		w.tune = func(o *node.Options) {
			o.Keys = before
			if o.Dir.Node() == "g" {
				o.Gateway, o.CheckApp = true, nil
			}
		}
		ids := []string{"a", "b", "c", "g"}
		for _, id := range ids {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		active := func(id string) string {
			if k := w.all[id].node.API().Status().Keys; k != nil {
				return k.Active
			}
			return ""
		}
		for _, id := range ids {
			w.until(id+" has the first keys", func() bool { return active(id) == before })
		}
		for _, id := range []string{"a", "b", "c"} {
			w.all[id].node.ApplyKeys(after)
		}
		w.during(func() { time.Sleep(10 * time.Second) })
		for _, id := range ids {
			if active(id) != before {
				t.Errorf("%s goes by %s, though g has not loaded it", id, active(id))
			}
		}
		w.until("a names the node that has not", func() bool {
			p := w.all["a"].node.API().Status().Keys.Pending
			return len(p) == 1 && strings.Join(p[0].Loaded, " ") == "a b c" && strings.Join(p[0].Missing, " ") == "g"
		})
		w.all["g"].node.ApplyKeys(after)
		for _, id := range ids {
			w.until(id+" has the next keys", func() bool { return active(id) == after })
		}
	})
}
