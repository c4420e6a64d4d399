package admin_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"shardway/admin/api"
	"shardway/admin/client"
)

// upgradable is a cluster with a format version.
type upgradable struct {
	*fake
	by string
}

func (l *upgradable) UpgradeStatus(context.Context) api.UpgradeState {
	return api.UpgradeState{CurrentVersion: 1, Next: 2, Wait: "59m30s", Nodes: []api.NodeUpgrade{{Node: "a", MaxFormatVersion: 2, HasHeartbeat: true}, {Node: "b", MaxFormatVersion: 2, HasHeartbeat: true}}}
}

func (l *upgradable) FinalizeUpgrade(_ context.Context, by string) (api.UpgradeState, error) {
	l.by = by
	return api.UpgradeState{CurrentVersion: 2, Next: 2, Nodes: []api.NodeUpgrade{{Node: "a", MaxFormatVersion: 2, HasHeartbeat: true}}}, l.refuse
}

func TestUpgradeIsShownAndFinalized(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	for _, tc := range []struct{ method, target, body, want string }{
		{"GET", "/v1/upgrade", "", `{"in_force":1,"next":2,"wait":"59m30s","nodes":[{"node":"a","knows":2,"heard":true,"blocks":false},{"node":"b","knows":2,"heard":true,"blocks":false}]}`},
		{"POST", "/v1/upgrade", `{"finalize":true}`, `{"in_force":2,"next":2,"nodes":[{"node":"a","knows":2,"heard":true,"blocks":false}]}`},
		{"POST", "/v1/upgrade?finalize=true", "", `{"in_force":2,"next":2,"nodes":[{"node":"a","knows":2,"heard":true,"blocks":false}]}`},
	} {
		l := &upgradable{fake: newFake()}
		res := fetchJSON(t, handlerOf(l), tc.method, tc.target, tc.body, js...)
		if res.Code != 200 || res.Body.String() != tc.want+"\n" || tc.method == "POST" && l.by != "anybody from 192.0.2.1:1234" {
			t.Errorf("%s %s = %d %s by %q, want %s", tc.method, tc.target, res.Code, res.Body, l.by, tc.want)
		}
	}
}

// An irreversible action requires an explicit parameter.
func TestUpgradeErrorsNameParameterAndRemedy(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	refused := newFake()
	refused.refuse = fmt.Errorf("%w: format version 1 is in force, and format version 2 is blocked by c", api.ErrRefused)
	const say = `finalize is missing: send {"finalize":true} or ?finalize=true: a finalized upgrade cannot be undone`
	for _, tc := range []struct {
		c                    api.Cluster
		method, target, body string
		status               int
		detail               string
	}{
		{&upgradable{fake: newFake()}, "POST", "/v1/upgrade", "", 400, say},
		{&upgradable{fake: newFake()}, "POST", "/v1/upgrade", `{"finalize":false}`, 400, say},
		{&upgradable{fake: newFake()}, "POST", "/v1/upgrade?version=3", "", 400, `version = "3" is not known here: use finalize, reason`},
		{&upgradable{fake: newFake()}, "POST", "/v1/upgrade", `{"finalize":3}`, 400, `finalize = "3" is a number: give a bool`},
		{&upgradable{fake: newFake()}, "PUT", "/v1/upgrade", "", 405, "PUT /v1/upgrade: use GET, HEAD, POST"},
		{&upgradable{fake: refused}, "POST", "/v1/upgrade?finalize=true", "", 409, "refused: format version 1 is in force, and format version 2 is blocked by c"},
		{newFake(), "GET", "/v1/upgrade", "", 404, "this node has no format version"},
	} {
		res := fetchJSON(t, handlerOf(tc.c), tc.method, tc.target, tc.body, js...)
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail {
			t.Errorf("%s %s %s = %d %q, want %d %q", tc.method, tc.target, tc.body, res.Code, p.Detail, tc.status, tc.detail)
		}
	}
}

func TestClientFinalizesTheUpgrade(t *testing.T) {
	l := &upgradable{fake: newFake()}
	s := httptest.NewServer(handlerOf(l))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.UpgradeStatus(t.Context()); err != nil || got.Next != 2 || len(got.Nodes) != 2 {
		t.Errorf("UpgradeStatus() = %+v, %v", got, err)
	}
	if got, err := c.FinalizeUpgrade(t.Context(), ""); err != nil || got.CurrentVersion != 2 {
		t.Errorf("FinalizeUpgrade() = %+v, %v", got, err)
	}
}
