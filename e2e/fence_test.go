//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/cluster"
	"shardway/e2e/history"
	"shardway/e2e/load"
	"shardway/e2e/register"
	"shardway/e2e/store"
)

// TestStoreFencesWhatAStoppedOwnerDoes has the first exception of docs/guarantees.md:
// a proxy is stopped and its app works on, beside the next owner. What it then does
// to the store under its old epoch is refused, and what clients read stays that of
// one register for each key.
func TestStoreFencesWhatAStoppedOwnerDoes(t *testing.T) {
	s, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, s.Close()) }()
	c := cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 3, Shards: shards, AppFlags: []string{"--store", s.URL()},
	})
	owner := c.Follower(t)
	keys := c.AwaitServing(t).Keys(owner.ID, 1)[:6]
	others := c.Others(owner)
	var answers []history.Answer
	ask := func(n *cluster.Node, key, mode, value string) history.Answer {
		a := c.Ask(t, n, operation(key, mode, value))
		if !a.OK() {
			t.Errorf("%s %q: %d %s %s", a.Method, key, a.Status, a.Error, a.Detail)
		}
		answers = append(answers, a)
		return a
	}
	var late []*cluster.Asking
	for i, key := range keys {
		ask(others[0], key, "memory", "old-"+key)
		// Half of them will write, the others read.
		r := operation(key, "store", []string{"late-" + key, ""}[i%2])
		r.Header["App-Hang"] = "gate"
		late = append(late, c.AskLater(t, owner, r))
	}
	owner.App.AwaitHanging(t, "gate", len(keys))
	owner.Pause(t)
	c.AwaitServedBy(t, others...)
	for _, key := range keys {
		if a := ask(others[0], key, "memory", ""); a.Value != "old-"+key {
			t.Errorf("the next owner loaded %q, want %q", a.Value, "old-"+key)
		}
		ask(others[1], key, "memory", "new-"+key)
	}
	owner.App.Release(t, "gate")
	cluster.Await(t, "the store has refused what the app did late", func() error {
		if n := s.Refused(); n != len(keys) {
			return fmt.Errorf("%d of %d refused", n, len(keys))
		}
		return nil
	})
	owner.Continue(t)
	c.AwaitServing(t)
	for i, asking := range late {
		a := asking.Answer(t)
		if want := "new-" + keys[i]; a.OK() && (!a.Safe() || a.Value != want) {
			t.Errorf("late %s got %d %q", a.Method, a.Status, a.Value)
		}
		answers = append(answers, a)
	}
	for _, key := range keys {
		for _, mode := range []string{"memory", "store"} {
			if a := ask(owner, key, mode, ""); a.Value != "new-"+key {
				t.Errorf("key %q in the %s is %q afterwards, want %q", key, mode, a.Value, "new-"+key)
			}
		}
	}
	if r := c.Judge(t); r.Stopped < len(keys) {
		t.Errorf("report = %v: want an overlap for each of %d keys", r, len(keys))
	}
	if err := register.Check(register.Ops(answers, c.Runs(t)), register.Options{Applied: s.Applied()}); err != nil {
		t.Error(err)
	}
}

// operation writes a value to a key's register, or reads it if there is none.
func operation(key, mode, value string) load.Request {
	r := load.Request{Key: key, Header: map[string]string{"App-Register": mode}}
	if value != "" {
		r.Method, r.Body = "POST", []byte(value)
	}
	return r
}
