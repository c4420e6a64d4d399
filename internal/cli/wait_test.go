package cli_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
)

func TestWaitShowsTheUnmetCondition(t *testing.T) {
	empty := api.Status{Node: "a"}
	orphans := api.Status{Node: "a", Epoch: 3, Shards: api.ShardCounts{Orphaned: 2}}
	gone := api.Status{Node: "a", Epoch: 3, Shards: api.ShardCounts{Unavailable: 341}}
	good := api.Status{Node: "a", Epoch: 4, Nodes: []api.Node{{ID: "c", State: "active"}}}
	joining := api.Status{Node: "a", Epoch: 4, Nodes: []api.Node{{ID: "c", State: "joining"}}}
	beside := api.Status{Node: "a", Epoch: 4, Nodes: []api.Node{{ID: "b", State: "active"}, {ID: "c", State: "draining"}}}
	two := api.DrainState{Requested: true, Shards: 2, Requests: -1, Sockets: -1}
	for _, tt := range []struct {
		line, out string
		cluster   api.Cluster
	}{
		{"wait serving", "no shard map yet\n2 shards without an owner\n341 shards unavailable\n", comes(empty, orphans, gone, good)},
		{"wait node c", "node c is not there\nnode c is joining\n", comes(empty, joining, good)},
		{"wait node c", "node c is joining\n", comes(joining, api.Status{Node: "a", Epoch: 4, Nodes: []api.Node{{ID: "c", State: "cordoned"}}})},
		{"wait node c", "node c is draining\n", comes(beside, good)},
		{"wait drained a", "2 shards left, and they do not move: all others are cordoned\n", drained(api.DrainState{Requested: true, Shards: 2, Requests: -1, Sockets: -1, BlockedBy: "all others are cordoned"}, api.DrainState{Requested: true})},
		{"wait drained a", "2 shards left at node a\n", drained(two, api.DrainState{Requested: true})},
		{"wait drained", "node a has no drain request yet\n", drained(api.DrainState{Shards: 341}, api.DrainState{Requested: true})},
	} {
		code, out, errOut := run(t, tt.line+" --admin="+serveCluster(t, tt.cluster))
		if code != 0 || out != tt.out {
			t.Errorf("%s: exit %d, %s, wrote %q, want %q", tt.line, code, errOut, out, tt.out)
		}
	}
	code, out, errOut := run(t, "wait node c --json --admin="+serveCluster(t, comes(joining, good)))
	if want := "{\n  \"for\": \"node\",\n  \"node\": \"c\",\n  \"done\": true\n}\n"; code != 0 || out != want {
		t.Errorf("as JSON: exit %d, %s, %q, want %q", code, errOut, out, want)
	}
}

func TestWaitEndsAtItsDeadline(t *testing.T) {
	for line, want := range map[string]string{
		"wait serving --timeout=500ms --admin=127.0.0.1:1":                                            "after 500ms: nothing listens on 127.0.0.1:1",
		"wait node z --timeout=2s --admin=" + serveCluster(t, comes(api.Status{Node: "a", Epoch: 4})): "after 2s: node z is not there",
	} {
		code, _, errOut := run(t, line)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
}

func TestWaitErrorsNameMissingArgument(t *testing.T) {
	for line, want := range map[string]string{
		"wait":                       "expected",
		"wait long":                  "must be one of",
		"wait node":                  "wait node ID",
		"wait serving a":             "omit the node",
		"wait serving --timeout=-1s": "negative",
	} {
		if code, _, errOut := run(t, line); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
	if code, _, errOut := run(t, "wait node ghost --timeout=1h --admin="+serve(t, &cluster{})+" --token-file=/nonexistent"); code != 1 || !strings.Contains(errOut, "/nonexistent") {
		t.Errorf("with a token that is not there: exit %d, %s", code, errOut)
	}
}

// unready is a cluster whose node becomes ready at the second poll.
type unready struct {
	*becoming
	looked bool
}

func (u *unready) Ready() error {
	if u.looked {
		return nil
	}
	u.looked = true
	return errors.New("no lease yet")
}

// A node may respond for the cluster without being ready itself.
func TestWaitServingIsForTheNodeThatIsAsked(t *testing.T) {
	c := &unready{becoming: comes(api.Status{Node: "a", Epoch: 4})}
	if code, out, errOut := run(t, "wait serving --admin="+serveCluster(t, c)); code != 0 || !strings.Contains(out, "no lease yet") {
		t.Errorf("exit %d, %s, wrote %q", code, errOut, out)
	}
}

// An error that waiting cannot resolve ends the command at once, long before the timeout.
func TestWaitEndsWhereWaitingDoesNotHelp(t *testing.T) {
	all, err := auth.ParseTokens([]byte("me 0123456789abcdefghijklmn"))
	if err != nil {
		t.Fatal(err)
	}
	closed := serveAny(t, admin.Options{API: apitest.SetOf(&cluster{}), Access: auth.Access{Read: all}})
	for _, line := range []string{"wait serving", "wait node a", "wait drained", "wait drained a"} {
		code, out, errOut := run(t, line+" --timeout=20s --admin="+closed)
		if code != 1 || out != "" || !strings.Contains(errOut, "token") || strings.Contains(errOut, "after 20s") {
			t.Errorf("%s without a token: exit %d, %q, %s", line, code, out, errOut)
		}
	}
	// A node that is ready but does not return its status does not count as serving.
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "shardway-admin")
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer half.Close()
	if code, out, errOut := run(t, "wait serving --timeout=20s --admin="+half.Listener.Addr().String()); code != 1 || out != "" || !strings.Contains(errOut, "404") {
		t.Errorf("without a status: exit %d, %q, %s", code, out, errOut)
	}
}
