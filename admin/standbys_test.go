package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
)

// withStandbys is a cluster in which shard 0 has standbys.
type withStandbys struct {
	*fake
	standbys [][]int
}

func (c *withStandbys) MapWithStandbys() api.Map {
	shardMap := c.Map()
	shardMap.Standbys = c.standbys
	return shardMap
}

func (c *withStandbys) ShardStandbys(shard uint32) *api.ShardStandbys {
	if shard > 0 {
		return nil
	}
	return &api.ShardStandbys{
		Standbys:    []api.MapNode{{ID: "n2", HTTP: "127.0.0.1:8090"}},
		NotStandbys: []api.NotStandby{{Node: "n3", Reason: api.ReasonDraining}},
	}
}

func standbyHandler(cluster api.Cluster) http.Handler {
	return admin.New(admin.Options{API: apitest.SetOf(cluster), Log: zerolog.Nop()}).Handler()
}

func TestMapContainsStandbysIfRequested(t *testing.T) {
	c := &withStandbys{newFake(), [][]int{{1}, {1}, {0}, {}}}
	h := standbyHandler(c)
	res := fetchJSON(t, h, "GET", "/v1/map?replicas=1", "")
	if res.Code != http.StatusOK || !strings.Contains(res.Body.String(), `"standbys":[[1],[1],[0],[]]`) {
		t.Fatalf("GET /v1/map?replicas=1: %d %s", res.Code, res.Body)
	}
	// Another zone changes standbys without another map.
	tag := res.Header().Get("ETag")
	if again := fetchJSON(t, h, "GET", "/v1/map?replicas=1", "", "If-None-Match", tag); again.Code != http.StatusNotModified {
		t.Errorf("the same standbys: %d, want 304", again.Code)
	}
	c.standbys[0] = []int{0}
	if again := fetchJSON(t, h, "GET", "/v1/map?replicas=1", "", "If-None-Match", tag); again.Code != http.StatusOK {
		t.Errorf("other standbys: %d, want 200", again.Code)
	}
	if res = fetchJSON(t, h, "GET", "/v1/map", ""); strings.Contains(res.Body.String(), "standbys") || res.Header().Get("ETag") != `"17"` {
		t.Errorf("GET /v1/map without replicas: %s %s", res.Header().Get("ETag"), res.Body)
	}
	if res = fetchJSON(t, h, "GET", "/v1/map?replicas=2x", ""); res.Code != http.StatusBadRequest || !strings.Contains(res.Body.String(), `replicas = \"2x\"`) {
		t.Errorf("replicas=2x: %d %s", res.Code, res.Body)
	}
	if res = fetchJSON(t, handlerOf(newFake()), "GET", "/v1/map?replicas=1", ""); res.Code != http.StatusNotFound {
		t.Errorf("a node without standbys: %d, want 404", res.Code)
	}
}

func TestLocateContainsStandbys(t *testing.T) {
	h := standbyHandler(&withStandbys{fake: newFake()})
	const want = `"standbys":[{"id":"n2","http":"127.0.0.1:8090"}],"not_standbys":[{"node":"n3","reason":"draining"}]`
	if res := fetchJSON(t, h, "GET", "/v1/locate?key="+keyOf(0), ""); !strings.Contains(res.Body.String(), want) {
		t.Errorf("GET /v1/locate: %s, want %s", res.Body, want)
	}
	if res := fetchJSON(t, h, "GET", "/v1/locate?key="+keyOf(1), ""); strings.Contains(res.Body.String(), "standby") {
		t.Errorf("a shard without standbys: %s", res.Body)
	}
}
