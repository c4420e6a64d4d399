package admin_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"shardway/admin"
)

// levelled is a cluster that has a level.
type levelled struct {
	*fake
	by string
}

func (l *levelled) Level(context.Context) admin.LevelState {
	return admin.LevelState{InForce: 1, Next: 2, Wait: "59m30s", Nodes: []admin.NodeLevel{{Node: "a", Knows: 2, Heard: true}, {Node: "b", Knows: 2, Heard: true}}}
}

func (l *levelled) RaiseLevel(_ context.Context, by string) (admin.LevelState, error) {
	l.by = by
	return admin.LevelState{InForce: 2, Next: 2, Nodes: []admin.NodeLevel{{Node: "a", Knows: 2, Heard: true}}}, l.refuse
}

func TestLevelIsShownAndRaised(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	for _, tc := range []struct{ method, target, body, want string }{
		{"GET", "/v1/level", "", `{"in_force":1,"next":2,"wait":"59m30s","nodes":[{"node":"a","knows":2,"heard":true,"blocks":false},{"node":"b","knows":2,"heard":true,"blocks":false}]}`},
		{"POST", "/v1/level", `{"raise":true}`, `{"in_force":2,"next":2,"nodes":[{"node":"a","knows":2,"heard":true,"blocks":false}]}`},
		{"POST", "/v1/level?raise=true", "", `{"in_force":2,"next":2,"nodes":[{"node":"a","knows":2,"heard":true,"blocks":false}]}`},
	} {
		l := &levelled{fake: newFake()}
		res := fetchJSON(t, handlerOf(l), tc.method, tc.target, tc.body, js...)
		if res.Code != 200 || res.Body.String() != tc.want+"\n" || tc.method == "POST" && l.by != "anybody from 192.0.2.1:1234" {
			t.Errorf("%s %s = %d %s by %q, want %s", tc.method, tc.target, res.Code, res.Body, l.by, tc.want)
		}
	}
}

// What cannot be taken back is not done by a request that does not say so.
func TestLevelMistakesNameWhatAndRemedy(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	refused := newFake()
	refused.refuse = fmt.Errorf("%w: level 1 is in force, and level 2 is held up by c", admin.ErrRefused)
	const say = `raise is missing: say {"raise":true} or ?raise=true: a level that was raised cannot be taken back`
	for _, tc := range []struct {
		c                    admin.Cluster
		method, target, body string
		status               int
		detail               string
	}{
		{&levelled{fake: newFake()}, "POST", "/v1/level", "", 400, say},
		{&levelled{fake: newFake()}, "POST", "/v1/level", `{"raise":false}`, 400, say},
		{&levelled{fake: newFake()}, "POST", "/v1/level?level=3", "", 400, `level = "3" is not known here: use raise`},
		{&levelled{fake: newFake()}, "POST", "/v1/level", `{"raise":3}`, 400, `raise = "3" is a number: give a bool`},
		{&levelled{fake: newFake()}, "PUT", "/v1/level", "", 405, "PUT /v1/level: use GET, HEAD, POST"},
		{&levelled{fake: refused}, "POST", "/v1/level?raise=true", "", 409, "refused: level 1 is in force, and level 2 is held up by c"},
		{newFake(), "GET", "/v1/level", "", 404, "this node has no level"},
	} {
		res := fetchJSON(t, handlerOf(tc.c), tc.method, tc.target, tc.body, js...)
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail {
			t.Errorf("%s %s %s = %d %q, want %d %q", tc.method, tc.target, tc.body, res.Code, p.Detail, tc.status, tc.detail)
		}
	}
}

func TestClientRaisesTheLevel(t *testing.T) {
	l := &levelled{fake: newFake()}
	s := httptest.NewServer(handlerOf(l))
	defer s.Close()
	c, err := admin.NewClient(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Level(t.Context()); err != nil || got.Next != 2 || len(got.Nodes) != 2 {
		t.Errorf("Level() = %+v, %v", got, err)
	}
	if got, err := c.RaiseLevel(t.Context()); err != nil || got.InForce != 2 {
		t.Errorf("RaiseLevel() = %+v, %v", got, err)
	}
}
