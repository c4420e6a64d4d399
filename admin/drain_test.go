package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shardway/admin/api"
)

// draining is a cluster in which a drain is in progress.
type draining struct {
	*fake
	left api.DrainState
}

func (d *draining) DrainState(_ context.Context, node string) (api.DrainState, error) {
	if node != d.left.Node {
		return api.DrainState{}, fmt.Errorf("%w %q", api.ErrUnknownNode, node)
	}
	return d.left, nil
}

func TestDrainReportsProgress(t *testing.T) {
	c := &draining{fake: newFake(), left: api.DrainState{Node: "n3", Requested: true, Shards: 4, Requests: 2, Sockets: -1, Held: 1}}
	h := handlerOf(c)
	w := fetchJSON(t, h, http.MethodGet, "/v1/drain?node=n3", "")
	if want := `{"node":"n3","requested":true,"shards":4,"requests":2,"websockets":-1,"held":1}`; w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	for target, want := range map[string]int{"/v1/drain": http.StatusBadRequest, "/v1/drain?node=ghost": http.StatusNotFound, "/v1/drain?node=n3&force=true": http.StatusBadRequest} {
		if w := fetchJSON(t, h, http.MethodGet, target, ""); w.Code != want {
			t.Errorf("GET %s: %d %s, want %d", target, w.Code, w.Body, want)
		}
	}
	if w := fetchJSON(t, h, http.MethodPost, "/v1/drain", `{"node":"n3"}`, "Content-Type", "application/json"); w.Code != http.StatusOK || len(c.actions()) != 1 {
		t.Errorf("POST: %d %s, did %v", w.Code, w.Body, c.actions())
	}
	if w := fetchJSON(t, h, http.MethodDelete, "/v1/drain", ""); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d %s", w.Code, w.Body)
	}
	if w := fetchJSON(t, handlerOf(newFake()), http.MethodGet, "/v1/drain?node=n3", ""); w.Code != http.StatusNotFound {
		t.Errorf("of a cluster that does not know: %d %s", w.Code, w.Body)
	}
}
