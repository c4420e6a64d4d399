//go:build linux

package chaos

import (
	"testing"
	"time"

	"shardway/e2e/history"
	"shardway/e2e/load"
)

// TestOnlyTheHurtMayFail has a node a that was hurt from 100 to 200 (and, if it was
// killed, died from 110 to 120), a shard of a's and one of b's, and requests that
// failed in all the ways there are.
func TestOnlyTheHurtMayFail(t *testing.T) {
	const shards, wait = 2, 50 * time.Nanosecond
	key := load.FreshKeysIn("k", shards, 1, func(int) bool { return true })
	ofA, ofB := key[0], key[1]
	if load.ShardOf(ofA, shards) != 0 {
		ofA, ofB = ofB, ofA
	}
	answer := func(target, key, method string, sent, done int64) history.Answer {
		return history.Answer{ID: "x", Key: key, Method: method, Attempts: []history.Attempt{{Target: target, Sent: sent, Done: done}}}
	}
	problem := func(a history.Answer, status int, code, detail string) history.Answer {
		a.Status, a.Error, a.Detail = status, code, detail
		return a
	}
	cut := func(a history.Answer, app string) history.Answer {
		a.Status, a.Cut, a.App = 200, true, app
		return a
	}
	fenced := func(a history.Answer) history.Answer {
		a.Status, a.App, a.EchoID = 409, "a", a.ID
		return a
	}
	for _, c := range []struct {
		name string
		harm harm
		a    history.Answer
		want bool
	}{
		{"lost at its death", killed, answer("a", ofB, "GET", 105, 115), true},
		{"lost before its death", killed, answer("a", ofB, "GET", 90, 105), false},
		{"lost after its death", killed, answer("a", ofB, "GET", 130, 140), false},
		{"lost elsewhere", killed, answer("b", ofA, "GET", 105, 115), false},
		{"lost at one that lives", stopped, answer("a", ofA, "GET", 105, 115), false},
		{"cut by the owner's death", killed, cut(answer("b", ofA, "GET", 105, 115), "a"), true},
		{"cut, of another app", killed, cut(answer("b", ofA, "GET", 105, 115), "b"), false},
		{"cut, of another key", killed, cut(answer("b", ofB, "GET", 105, 115), "b"), false},
		{"cut by the app's death", bereft, cut(answer("b", ofA, "GET", 105, 115), "a"), true},
		{"a POST that may have run", killed, problem(answer("b", ofA, "POST", 90, 300), 502, "peer-unreachable", "it may have run"), true},
		{"a GET that may have run", killed, problem(answer("b", ofA, "GET", 90, 300), 502, "peer-unreachable", "it may have run"), false},
		{"a POST, and not a word", stopped, problem(answer("b", ofA, "POST", 90, 300), 502, "upstream-broken", ""), false},
		{"a POST of another key", killed, problem(answer("b", ofB, "POST", 90, 300), 502, "peer-unreachable", "it may have run"), false},
		{"a POST after all served", killed, problem(answer("b", ofA, "POST", 201, 300), 502, "peer-unreachable", "it may have run"), false},
		{"a POST before the fault", killed, problem(answer("b", ofA, "POST", 80, 99), 502, "peer-unreachable", "it may have run"), false},
		{"a wait to its end", apart, problem(answer("a", ofB, "GET", 110, 160), 503, "no-leader", ""), true},
		{"a wait cut short", apart, problem(answer("a", ofB, "GET", 110, 159), 503, "no-leader", ""), false},
		{"a full queue", apart, problem(answer("a", ofB, "GET", 110, 160), 503, "queue-full", ""), false},
		{"no way to the owner", apart, problem(answer("b", ofA, "GET", 110, 160), 502, "peer-unreachable", ""), true},
		{"no way to a dead owner", killed, problem(answer("b", ofA, "GET", 110, 160), 502, "peer-unreachable", ""), false},
		{"a wait for the owner to its end", apart, problem(answer("b", ofA, "GET", 110, 160), 503, "peer-unreachable", ""), true},
		{"a wait for the owner cut short", apart, problem(answer("b", ofA, "GET", 110, 159), 503, "peer-unreachable", ""), false},
		{"a wait for a dead owner", killed, problem(answer("b", ofA, "GET", 110, 160), 503, "peer-unreachable", ""), false},
		{"no app", bereft, problem(answer("b", ofA, "GET", 110, 160), 502, "upstream-refused", ""), true},
		{"no app, and a live one", stopped, problem(answer("b", ofA, "GET", 110, 160), 502, "upstream-refused", ""), false},
		{"fenced", stopped, fenced(answer("b", ofA, "POST", 110, 160)), false},
		{"the app's own error", killed, problem(answer("b", ofA, "GET", 110, 160), 500, "", ""), false},
		{"an unknown problem", killed, problem(answer("b", ofA, "GET", 110, 160), 500, "internal", ""), false},
	} {
		w := wound{harm: c.harm, node: "a", from: 100, until: 200}
		if c.harm == killed {
			w.deaths = []death{{110, 120}}
		}
		x := alibi{
			wounds: []wound{w}, nodes: map[string]string{"a": "a", "b": "b"}, shards: shards, queueWait: wait,
			owners: func(shard int) map[string]bool { return map[string]bool{[]string{"a", "b"}[shard]: true} },
		}
		if got := x.excuse(&c.a); (got != "") != c.want {
			t.Errorf("%s: excuse %q, want one: %v", c.name, got, c.want)
		}
	}
}
