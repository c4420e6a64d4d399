package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shardway/admin/api"
)

func TestUnknownNodeIsAnErrorThatNamesTheKnownOnes(t *testing.T) {
	h := handlerOf(newFake())
	for target, want := range map[string]string{
		"/v1/shards?node=zz":    `unknown node \"zz\": the cluster has n1, n2`,
		"/v1/endpoints?node=zz": `unknown node \"zz\": the cluster has db, n1, n2`,
	} {
		if w := fetchJSON(t, h, http.MethodGet, target, ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s: %d %s, want 404 and %s", target, w.Code, w.Body, want)
		}
	}
	for _, target := range []string{"/v1/shards?node=n1", "/v1/shards?node=", "/v1/shards?node=n1&state=orphaned", "/v1/endpoints?node=db", "/v1/endpoints?node=db&name=x"} {
		if w := fetchJSON(t, h, http.MethodGet, target, ""); w.Code != http.StatusOK {
			t.Errorf("GET %s: %d %s", target, w.Code, w.Body)
		}
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	err := api.UnknownNode(strings.Repeat("z", 1000), many)
	if !errors.Is(err, api.ErrUnknownNode) || !strings.HasSuffix(err.Error(), "n14, n15 and 4 more (`shardway nodes` lists them)") || len(err.Error()) > 300 {
		t.Errorf("of many: %v", err)
	}
	if err := api.UnknownNode("a", nil); !strings.HasSuffix(err.Error(), "the cluster has no nodes yet") {
		t.Errorf("of none: %v", err)
	}
}
