package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"shardway/admin/api"
	"shardway/admin/client"
)

// timingCluster is a cluster with timing settings, or without them.
type timingCluster struct {
	*fake
	unborn bool
	asked  api.Timing
	by     string
}

func (r *timingCluster) Timing(context.Context) (api.TimingState, bool) {
	return api.TimingState{
		Timing: api.Timing{Lease: "1s", DeadAfter: "5s", Takeover: "timeout", RebalanceMode: "incremental"},
		Since:  9, Before: api.Timing{Lease: "500ms", DeadAfter: "2.5s", Takeover: "lease", RebalanceMode: "incremental"},
	}, !r.unborn
}

func (r *timingCluster) ChangeTiming(ctx context.Context, change api.Timing, by string) (api.TimingState, error) {
	r.asked, r.by = change, by
	t, _ := r.Timing(ctx)
	return t, r.refuse
}

func TestTimingIsShownAndChanged(t *testing.T) {
	const whole = `{"lease":"1s","dead_after":"5s","takeover":"timeout","rebalance_mode":"incremental","since":9,"before":{"lease":"500ms","dead_after":"2.5s","takeover":"lease","rebalance_mode":"incremental"}}` + "\n"
	js := []string{"Content-Type", "application/json"}
	for _, tc := range []struct {
		method, target, body string
		want                 api.Timing
	}{
		{"GET", "/v1/settings", "", api.Timing{}},
		{"POST", "/v1/settings?lease=1s&dead_after=5s&takeover=timeout&rebalance_mode=stop-the-world", "", api.Timing{Lease: "1s", DeadAfter: "5s", Takeover: "timeout", RebalanceMode: "stop-the-world"}},
		{"POST", "/v1/settings", `{"dead_after":"5s"}`, api.Timing{DeadAfter: "5s"}},
	} {
		r := &timingCluster{fake: newFake()}
		res := fetchJSON(t, handlerOf(r), tc.method, tc.target, tc.body, js...)
		if res.Code != 200 || res.Body.String() != whole || r.asked != tc.want || tc.method == "POST" && r.by != "anybody from 192.0.2.1:1234" {
			t.Errorf("%s %s = %d %s, asked %+v by %q, want %+v", tc.method, tc.target, res.Code, res.Body, r.asked, r.by, tc.want)
		}
	}
}

func TestTimingErrorsNameParameterAndRemedy(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	refused := newFake()
	refused.refuse = fmt.Errorf("%w: try again in 6s", api.ErrRefused)
	invalid := newFake()
	invalid.refuse = fmt.Errorf("%w: takeover = \"none\" is not a takeover mode: give timeout, lease or immediate", api.ErrInvalid)
	for _, tc := range []struct {
		c                    api.Cluster
		method, target, body string
		status               int
		detail               string
	}{
		{&timingCluster{fake: newFake()}, "POST", "/v1/settings", "", 400, `lease is missing: set at least one of lease, dead_after, takeover or rebalance_mode, for example {"dead_after":"5s"} or ?dead_after=5s`},
		{&timingCluster{fake: newFake()}, "POST", "/v1/settings?heartbeat=1s", "", 400, `heartbeat = "1s" is not known here: use lease, dead_after, takeover, rebalance_mode, reason`},
		{&timingCluster{fake: newFake()}, "POST", "/v1/settings", `{"lease":5}`, 400, `lease = "5" is a number: give a string`},
		{&timingCluster{fake: newFake()}, "POST", "/v1/settings", `[]`, 400, `the body is not one JSON object (json: cannot unmarshal array into Go value of type map[string]json.RawMessage): send one such as {"dead_after":"5s"}`},
		{&timingCluster{fake: newFake()}, "PUT", "/v1/settings", "", 405, "PUT /v1/settings: use GET, HEAD, POST"},
		{&timingCluster{fake: newFake()}, "GET", "/v1/settings?lease=1s", "", 400, `lease = "1s" is not known here: this takes no parameters`},
		{&timingCluster{fake: newFake(), unborn: true}, "GET", "/v1/settings", "", 404, "this node belongs to no cluster yet: it knows no timing"},
		{&timingCluster{fake: refused}, "POST", "/v1/settings?lease=1s", "", 409, "refused: try again in 6s"},
		{&timingCluster{fake: invalid}, "POST", "/v1/settings?takeover=none", "", 400, `invalid: takeover = "none" is not a takeover mode: give timeout, lease or immediate`},
		{newFake(), "GET", "/v1/settings", "", 404, "this node has no timing"},
	} {
		res := fetchJSON(t, handlerOf(tc.c), tc.method, tc.target, tc.body, js...)
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail {
			t.Errorf("%s %s %s = %d %q, want %d %q", tc.method, tc.target, tc.body, res.Code, p.Detail, tc.status, tc.detail)
		}
	}
}

func TestClientChangesTheTiming(t *testing.T) {
	r := &timingCluster{fake: newFake()}
	s := httptest.NewServer(handlerOf(r))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, _ := r.Timing(t.Context())
	if got, err := c.Timing(t.Context()); err != nil || got != want {
		t.Errorf("Timing() = %+v, %v", got, err)
	}
	change := api.Timing{Takeover: "timeout"}
	if got, err := c.ChangeTiming(t.Context(), change, ""); err != nil || got != want || r.asked != change {
		t.Errorf("Retime() = %+v, %v, asked %+v", got, err, r.asked)
	}
	if b, _ := json.Marshal(change); string(b) != `{"takeover":"timeout"}` {
		t.Errorf("a change is sent as %s", b)
	}
}
