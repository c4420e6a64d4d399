package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"shardway/admin/api"
)

// planning is a cluster that can plan a map.
type planning struct {
	*fake
	plan api.Plan
	err  error
}

func (p *planning) Plan(context.Context) (api.Plan, error) { return p.plan, p.err }

func TestPlanIsShownAndNotCarriedOut(t *testing.T) {
	c := &planning{fake: newFake(), plan: api.Plan{Epoch: 17, Moves: []api.PlannedMoves{{From: "n1", To: "n2", Why: "pin", Shards: []uint32{3}}}}}
	h := handlerOf(c)
	w := fetchJSON(t, h, http.MethodGet, "/v1/plan", "")
	if want := `{"epoch":17,"moves":[{"from":"n1","to":"n2","why":"pin","proposed":false,"shards":[3]}]}`; w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	if w := fetchJSON(t, h, http.MethodPost, "/v1/plan", ""); w.Code != http.StatusMethodNotAllowed || len(c.actions()) > 0 {
		t.Errorf("POST: %d %s, did %v", w.Code, w.Body, c.actions())
	}
	c.err = api.ErrNoLeader
	if w := fetchJSON(t, h, http.MethodGet, "/v1/plan", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a leader: %d %s", w.Code, w.Body)
	}
}
