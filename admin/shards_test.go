package admin_test

import (
	"strings"
	"testing"
)

func TestShardsThatAreNone(t *testing.T) {
	h := handlerOf(newFake())
	for target, want := range map[string]struct {
		status int
		says   string
	}{
		"/v1/shards/4":           {404, "shard = 4 does not exist: the cluster has 4, from 0 to 3"},
		"/v1/shards/-1":          {400, `shard = \"-1\" is not a whole number`},
		"/v1/shards/alice":       {400, `shard = \"alice\" is not a whole number`},
		"/v1/shards/99999999999": {400, "not a whole number"},
		"/v1/shards/1?x=y":       {400, "x"},
	} {
		if res := fetchJSON(t, h, "GET", target, ""); res.Code != want.status || !strings.Contains(body(res), want.says) {
			t.Errorf("GET %s = %d %s, want %d with %s", target, res.Code, body(res), want.status, want.says)
		}
	}
	if res := fetchJSON(t, handlerOf(blank{newFake()}), "GET", "/v1/shards/0", ""); res.Code != 404 || !strings.Contains(body(res), "not born") {
		t.Errorf("before its birth: %d %s", res.Code, body(res))
	}
}
