package admin_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
)

// owning is a cluster that reports the shards of its app.
type owning struct{ *fake }

func (o owning) Held(context.Context) (api.OwnedList, error) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	return api.OwnedList{Node: "n1", Epoch: 17, LeaseMS: 412, Shards: []api.OwnedShard{
		{Shard: 1, Epoch: 9, State: api.OwnedServing, Since: at},
		{Shard: 2, Epoch: 17, State: api.OwnedAcquiring, Since: at, Error: "disk full"},
	}}, o.refuse
}

func TestOwnedIsShown(t *testing.T) {
	const want = `{"node":"n1","epoch":17,"lease_ms":412,"may_write_ms":0,"shards":[` +
		`{"shard":1,"epoch":9,"state":"serving","since":"2030-01-02T03:04:05.006Z"},` +
		`{"shard":2,"epoch":17,"state":"acquiring","since":"2030-01-02T03:04:05.006Z","error":"disk full"}]}` + "\n"
	ended := newFake()
	ended.refuse = errors.New("it has ended")
	for _, tc := range []struct {
		c              api.Cluster
		method, target string
		status         int
		want           string // the detail, if the response is a problem
	}{
		{owning{newFake()}, "GET", "/v1/owned", 200, want},
		{owning{newFake()}, "POST", "/v1/owned", 405, "POST /v1/owned: use GET, HEAD"},
		{owning{newFake()}, "GET", "/v1/owned?node=a", 400, `node = "a" is not known here: this takes no parameters`},
		{owning{ended}, "GET", "/v1/owned", 500, "it has ended"},
		{newFake(), "GET", "/v1/owned", 404, "this node owns no shards"},
	} {
		res := fetchJSON(t, handlerOf(tc.c), tc.method, tc.target, "")
		got := res.Body.String()
		if tc.status != 200 {
			got = problemOf(t, res).Detail
		}
		if res.Code != tc.status || got != tc.want {
			t.Errorf("%s %s = %d %s, want %d %s", tc.method, tc.target, res.Code, got, tc.status, tc.want)
		}
	}
}

func TestClientAsksWhatIsOwned(t *testing.T) {
	s := httptest.NewServer(handlerOf(owning{newFake()}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Owned(t.Context()); err != nil || got.Node != "n1" || len(got.Shards) != 2 || got.Shards[1].Error != "disk full" {
		t.Errorf("Owned() = %+v, %v", got, err)
	}
}
